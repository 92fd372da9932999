"""Wrong arguments are errors of one sentence that say what to pass, when they are passed."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from toolglot import (
    Agent,
    AuditLog,
    CacheMark,
    Conversation,
    Hooks,
    HttpTransport,
    Options,
    Rate,
    Request,
    RetryConfig,
    RunLimits,
    Script,
    SimulatedTransport,
    Simulator,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolConfig,
    ToolDefinition,
    ToolRegistry,
    ToolResult,
    UnknownName,
    UsageError,
    builtins,
    coding_tools,
    create_engine,
    tool,
    tool_results,
    user,
)


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


class Silent(Hooks):
    pass


@pytest.mark.parametrize(("options", "message"), [
    ({"tools": None}, "None cannot be a tool: it cannot be called"),
    ({"tools": ["double"]}, "'double' cannot be a tool: it cannot be called; a plug-in's tools are "
                            "load_plugin('tools', NAME)"),
    ({"tools": [double, builtins(".")]}, "Builtins is not a tool, but has tools: pass its .tools"),
    ({"hooks": [Silent]}, "hooks: pass instances of subclasses of Hooks, not the class Silent"),
    ({"model": None}, "model: pass PROVIDER:MODEL, such as 'anthropic:claude-sonnet-5', or an Engine, not "
                      "None"),
    ({"config": {"timeout": 3}}, "config: pass a ToolConfig, not dict"),
    ({"options": {"max_tokens": 3}}, "options: pass Options, not dict"),
    ({"context": {"budget": 3}}, "context: pass a ContextPolicy, not dict"),
    ({"system": ["Be brief."]}, "system: pass a text, or a function that returns one, not list"),
    ({"approve": "yes"}, "approve: pass a function that takes an ApprovalRequest, not str"),
    ({"limits": ToolConfig()}, "limits: pass RunLimits, not ToolConfig"),
    ({"config": RunLimits()}, "config: pass a ToolConfig, not RunLimits"),
    ({"max_total_tokens": 3}, "unknown agent option 'max_total_tokens': pass "
                              "limits=RunLimits(max_total_tokens=…)"),
    ({"max_tokens": 3}, "unknown agent option 'max_tokens': pass options=Options(max_tokens=…)"),
    ({"summarize": "brief"}, "summarize: pass a function that takes messages and returns a text, not str"),
    ({"facade": 3}, "facade: pass the name of a facade, or a Facade, not int"),
    ({"audit": AuditLog}, "audit: pass an AuditLog, not the class AuditLog"),
    ({"conversation": [user("hi")]}, "conversation: pass a Conversation, not list"),
    ({"transport": HttpTransport}, "transport: pass an object with the method `send`, not the class "
                                   "HttpTransport"),
    ({"key": 3}, "key: pass a key as text, or a function that returns it, not int"),
    ({"headers": [("a", "b")]}, "headers: pass a dict of texts, not list"),
    ({"key": "k", "headers": {"x-team": 3}}, "x-team: pass the value of a header as text, not int"),
    ({"fallbacks": [3]}, "fallbacks: pass PROVIDER:MODEL, such as 'anthropic:claude-sonnet-5', or an Engine, "
                         "not int"),
    ({"retry": 3}, "retry: pass a RetryConfig, not int"),
    ({"base_url": 3}, "base_url: pass a URL as text, not int"),
    ({"aprove": print}, "unknown agent option 'aprove'; did you mean 'approve' or 'approval_mode'?"),
    ({"tool": [double]}, "unknown agent option 'tool'; did you mean 'tools'?"),
    ({"api_key": "x"}, "unknown agent option 'api_key'; did you mean 'key'?"),
    ({"temperature": 0.5}, "unknown agent option 'temperature': pass options=Options(temperature=…)"),
    ({"max_iterations": 3}, "unknown agent option 'max_iterations': pass limits=RunLimits(max_iterations=…)"),
])  # fmt: skip
def test_wrong_option_of_an_agent(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Agent(options.pop("model", "anthropic:claude-sonnet-4-5"), **options)
    assert str(caught.value) == message


def wrong(value: object) -> Any:
    """A value that type checkers would refuse."""
    return value


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Agent(system=lambda _: wrong(3)).run_sync("hi"), "system: the function must return text, not "
                                                              "int"),
    (lambda: Agent().run_sync("hi", conversation=wrong([user("hi")])), "conversation: pass a Conversation, "
                                                                       "not list"),
    (lambda: setattr(Agent(), "config", {}), "config: pass a ToolConfig, not dict"),
    (lambda: wrong(tool)(double, effect="read"), "unknown tool option 'effect'; did you mean 'effects'?"),
    (lambda: tool(double, version=wrong(3)), "tool 'double': version: pass a text, not 3"),
    (
        lambda: tool(double, timeout=wrong("3")),
        "tool 'double': timeout: pass a number of seconds greater than 0, or None, not '3'",
    ),
    (lambda: tool(double, approval=wrong("yes")), "tool 'double': approval: pass True, False or None, not "
                                                  "'yes'"),
    (lambda: coding_tools(".", options=wrong({"require_read": False})), "options: pass BuiltinOptions, not "
                                                                        "dict"),
    (
        lambda: Agent(output_type=wrong(3)),
        "3 cannot be an output type: pydantic does not know it; pass a type, or a JSON Schema",
    ),
    (
        lambda: Agent().stream("hi", output_type=wrong([int])),
        "[<class 'int'>] cannot be an output type: pydantic does not know it; pass a type, or a JSON Schema",
    ),
    (
        lambda: Agent().run_sync("hi", output_type=Silent),
        f"{Silent!r} cannot be an output type: pydantic does not know it; pass a type, or a JSON Schema",
    ),
    (
        lambda: Agent(output_type={"type": 3}),
        "output_type: not a JSON Schema: type: 3 is not valid under any of the schemas listed in the 'anyOf' "
        "keyword",
    ),
    (lambda: Conversation(wrong("hi")), "a conversation holds messages, not str; use user(…)"),
    (lambda: Conversation().append(wrong({"role": "user"})), "a conversation holds messages, not dict; use "
                                                             "user(…)"),
    (lambda: Request("m", wrong("hi")), "messages of Request: pass a list, such as [user('hi')]"),
    (lambda: Script([wrong(5)]), "a turn of a script is text, a Reply, or a function that returns one of "
                                 "them, not int"),
    (
        lambda: Agent(transport=SimulatedTransport(Script([lambda _: wrong(5)]))).run_sync("hi"),
        "a turn of a script is text, a Reply, or a function that returns one of them, not int",
    ),
    (lambda: Simulator(wrong(["say x"])), "script: pass a Script, as in Simulator(Script(['say hi'])), not "
                                          "list"),
    (lambda: SimulatedTransport(wrong(["say x"])), "script: pass a Script, as in Simulator(Script(['say "
                                                   "hi'])), not list"),
    (lambda: tool_results(wrong("hi")), "a tool message holds tool results, not str; use ToolResult(call.id, "
                                        "…)"),
])  # fmt: skip
def test_wrong_argument_of_a_function(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == message


def test_one_item_is_as_good_as_a_list_of_one() -> None:
    options: dict[str, Any] = {"tools": double, "hooks": Silent(), "hosted": "web_search"}
    assert Agent("simulator", **options).view().tool_names == ("double", "web_search")
    assert Agent(transport=SimulatedTransport(Simulator(faults="reset"))).run_sync("say hi").text == "hi"
    busy = SimulatedTransport(Simulator(faults=["overloaded"] * 3))
    agent = Agent(
        "simulator:anthropic",
        transport=busy,
        retry=RetryConfig(max_retries=2, base=0),
        fallbacks="simulator:gemini",
    )
    agent.run_sync("hi")
    assert agent.view().engine.profile.id == "gemini"
    assert [tool.name for tool in wrong(ToolRegistry)(double)] == ["double"]
    assert [tool.name for tool in coding_tools(".", names="read")] == ["read"]
    for simulator in (Script("say hi"), Simulator(Script(["say hi"])), Script([lambda _: "say hi"])):
        assert Agent("simulator", transport=SimulatedTransport(simulator)).run_sync("?").text == "hi"


def test_a_model_that_names_its_vendor_needs_no_provider() -> None:
    assert create_engine("claude-sonnet-4-5", key="k").name == "anthropic:claude-sonnet-4-5"
    agent = Agent("gpt-4o", key="k")
    agent.switch("gpt-4o-mini")  # the key is of the same provider, so it is kept
    assert asyncio.run(agent.view().engine.keys.headers()) == {"authorization": "Bearer k"}


def name_in_policy(field: str, name: str) -> ToolConfig:
    """A configuration with a tool's name in one of its fields."""
    values: dict[str, Any] = {
        "max_uses": {name: 1},
        "rates": {name: Rate(1, 1)},
        "approve": [f"{name}(x)"],
        "tool_choice": ToolChoice("auto", (name,)),
    }
    return ToolConfig(**{field: values.get(field, [name])})


POLICY_FIELDS = ["allow", "max_uses", "rates", "approve", "deny", "tool_choice"]


@pytest.mark.parametrize("field", POLICY_FIELDS)
def test_a_name_in_the_configuration_that_no_tool_has_is_an_error(field: str) -> None:
    message = f"unknown tool in {field} of ToolConfig 'duble'; did you mean 'double'?"
    with pytest.raises(UnknownName, match=re.escape(message)):
        Agent("simulator", tools=[double], config=name_in_policy(field, "duble"))
    agent = Agent(
        "simulator", tools=[double], options=Options(), config=(kept := name_in_policy(field, "double"))
    )
    with pytest.raises(UnknownName, match=re.escape(message)):
        agent.config = name_in_policy(field, "duble")
    assert agent.config is kept


@pytest.mark.parametrize(
    "name", ["double", "shell", "Bash", "exec_command", "mcp__later__add", "mcp__later__*", "dou*", "Ba*"]
)
@pytest.mark.parametrize("field", POLICY_FIELDS)
def test_names_of_built_in_tools_and_of_servers_are_known(
    field: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    Agent("simulator", tools=[double], config=name_in_policy(field, name))
    assert caplog.messages == []


@pytest.mark.parametrize("field", POLICY_FIELDS)
def test_a_pattern_that_matches_nothing_yet_is_a_warning(
    field: str, caplog: pytest.LogCaptureFixture
) -> None:
    Agent("simulator", tools=[double], config=name_in_policy(field, "dubl*"))
    assert caplog.messages == [
        f"{field} of ToolConfig names no tool of this agent: 'dubl*'; did you mean 'double'?"
    ]


@pytest.mark.parametrize("answer", ["maybe", None])
def test_an_unknown_answer_of_an_approver_is_a_no_and_a_warning(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent("simulator", tools=[tool(double, approval=True)], approve=lambda _: answer)
    assert agent.run_sync('call double {"x": 1}').outcomes[0].result.error_kind == "rejected"
    advice = "use True, False, 'yes', 'no', 'always', 'later', Allow(…) or Deny(…)"
    assert caplog.messages == [
        f"approve: {answer!r} is not a decision on a call; {advice}; it is treated as no"
    ]


def test_an_agent_is_short_in_a_shell() -> None:
    agent = Agent("simulator:gemini", tools=[double], conversation=Conversation([user("hi"), user("ho")]))
    assert repr(agent) == "<Agent simulator:gemini/gemini-3-pro-preview, 1 tool, 2 messages>"


@pytest.mark.parametrize(
    ("create", "options", "message"),
    [
        (tool, {"callers": ["cod"]}, "unknown caller 'cod'; known: model, code"),
        (
            Tool(len, definition=ToolDefinition("f")).replace,
            {"callers": ["cod"]},
            "unknown caller 'cod'; known: model, code",
        ),
        (tool, {"deferred": "yes"}, "tool 'len': deferred: pass True or False, not 'yes'"),
        (
            tool,
            {"output_schema": 3},
            "tool 'len': output_schema: pass a JSON Schema as a dict, or None, not 3",
        ),
        (
            create_engine,
            {"model": "vllm:x", "text_calls": "no"},
            "text_calls: pass True, False or None, not str",
        ),
        (CacheMark, {"ttl": 5}, "ttl of CacheMark: expected `str`, got `int`"),
        (Text, {"text": "a", "cache": True}, "cache of Text: expected "),
        (Text, {"text": "a", "cache": "1h"}, "cache of Text: expected "),
        (ToolCall, {"id": "c", "name": "f", "cache": True}, "cache of ToolCall: expected "),
        (
            ToolResult,
            {"call_id": "c", "content": (Text("a"),), "cache": True},
            "cache of ToolResult: expected ",
        ),
        (ToolDefinition, {"name": "f", "cache": True}, "cache of ToolDefinition: expected "),
        (
            Agent(tools=[double]).remove_tools,
            {"tools": 3},
            "pass the names of tools, or the tools themselves, not int",
        ),
    ],
)
def test_values_of_the_wrong_type_are_refused_at_once(
    create: Callable[..., Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        create(**options)(len) if create is tool else create(**options)


def test_tools_are_removed_by_themselves_as_well() -> None:
    agent = Agent(tools=[double])
    agent.remove_tools([double])
    assert not agent.view().tool_names
    with pytest.raises(UsageError, match="unknown tool 'double'"):
        agent.remove_tools([double])
