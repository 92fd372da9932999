"""Facades that somebody wrote in Python: what their functions trip over never breaks a run, and what cannot
work is said.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent_kit import change
from tests.handover.harness import list_refusals, make_engine, make_transport

from toolglot.builtin.code_mode.run_code import ScriptHost
from toolglot.builtin.tools import builtins
from toolglot.errors import ToolError, UsageError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES, find_facade
from toolglot.facades.parameters import object_schema, string
from toolglot.facades.validation import check_facade
from toolglot.facades.view import Case, Facade, Field, RenderContext, View
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.search import search_tools_tool
from toolglot.values.messages import (
    BaseCall,
    Conversation,
    Message,
    Text,
    ToolCall,
    ToolResult,
    tool_results,
    user,
)

from .meaning import render
from .sample_facades import base_tools

CASE = Case(base="read", fields=(Field(native="file", base="path"),))
SHOW = View(name="show", description="", parameters=object_schema("file", file=string()), cases={"": CASE})


def falls(*_: Any) -> Any:
    raise RuntimeError("it fell")


def five(*_: Any) -> Any:
    return 5


def thing(*_: Any) -> Any:
    return {"file": object()}


def nothing(*_: Any) -> Any:
    return None


def words(*_: Any) -> Any:
    return ["one", "two"]


def gone(native: dict[str, Any]) -> Any:
    return native["gone"]


def exit_code(context: RenderContext) -> Any:
    return context.data["exit"]


def view(case: dict[str, Any] | None = None, **options: Any) -> View:
    cases = {"": replace(CASE, **case)} if case else SHOW.cases
    return replace(SHOW, **{"cases": cases, **options})


def mine(*views: View, **options: Any) -> Facade:
    return Facade(id="mine", title="Mine", views=views, **options)


# ---- functions that fall

NOT_RUN = "show did not run: its arguments cannot be interpreted."
PLAIN = ("one\ntwo\nthree", False), ("there is no b", True)
NOT_UNDERSTOOD = (NOT_RUN, True), (NOT_RUN, True)


BROKEN_RENDERERS = [
    *((key, falls) for key in ("result", "failure", "is_failure", "native_data", "from_base")),
    *((key, five) for key in ("result", "failure", "from_base")),
    *((key, thing) for key in ("native_data", "from_base")),
]
BROKEN_VIEWS = [
    *(view({"to_base": function}) for function in (falls, five, thing)),
    view({"fields": (Field(native="file", base="path", to_base=falls),)}),
    *(view(select_case=function) for function in (falls, five, words)),
]


@pytest.mark.parametrize(("table", "expected"), [
    *((view({key: function}), PLAIN) for key, function in BROKEN_RENDERERS),
    *((table, NOT_UNDERSTOOD) for table in BROKEN_VIEWS),
])  # fmt: skip
def test_no_function_of_a_table_breaks_a_run(table: View, expected: tuple[tuple[str, bool], ...]) -> None:
    transport = make_transport()
    agent = Agent(make_engine("anthropic", transport), tools=base_tools(), facade=mine(table))
    outcomes = asyncio.run(agent.run('call show {"file": "a.txt"} call show {"file": "b"}')).outcomes
    assert tuple((outcome.result.text, outcome.result.is_error) for outcome in outcomes) == expected
    agent.switch(make_engine("openai-chat", transport))
    asyncio.run(agent.run("Go on."))
    assert list_refusals(transport.sent) == []
    assert agent.save()


@pytest.mark.parametrize("back", [falls, five, thing])
def test_an_expression_without_arguments_is_none(back: Any, caplog: pytest.LogCaptureFixture) -> None:
    transport = make_transport()
    tool_call = ToolCall(
        "c1", "Read", {"file_path": "a.txt"}, base_call=BaseCall("read", {"path": "a.txt"}, "claude-code")
    )
    history = [
        user("Look."),
        Message("assistant", (tool_call,)),
        tool_results(ToolResult("c1", (Text("one"),))),
    ]
    agent = Agent(
        make_engine("gemini", transport),
        tools=base_tools(),
        facade=mine(view({"from_base": back}, parameters=object_schema("file", file={}))),
        conversation=Conversation(history),
    )
    with caplog.at_level("WARNING"):
        asyncio.run(agent.run("Go on."))
    assert "a call of read cannot be expressed as show" in caplog.text
    assert list_refusals(transport.sent) == []


@pytest.mark.parametrize(("table", "logged"), [
    (view({"result": five}), "the result of show cannot be rendered: TypeError('a number is not a string')"),
    (view({"result": nothing}), "null is not a string"),
    (view({"is_failure": falls}), "it fell"),
    (view({"native_data": thing}), "the result of show cannot be rendered"),
    (view(select_case=falls), "no case fits a call of show"),
    (view(select_case=five), "no case fits a call of show: KeyError(5)"),
])  # fmt: skip
def test_a_failing_renderer_is_logged_and_the_base_text_remains(
    table: View, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    facade = BoundFacade(mine(table), "m", ["read"])
    with caplog.at_level("WARNING"):
        result = render(
            facade, ToolCall("c", "show", {"file": "a"}), {"path": "a"}, ToolResult("c", (Text("one"),))
        )
    assert (result.text, result.is_error, result.data, result.name) == ("one", False, None, "show")
    assert logged in caplog.text


def test_an_invalid_call_is_not_logged_for_what_it_lacks(caplog: pytest.LogCaptureFixture) -> None:
    facade = BoundFacade(mine(view(select_case=gone)), "m", ["read"])
    wrong = ToolResult("c", (Text("no file"),), is_error=True, error_kind="validation")
    with caplog.at_level("WARNING"):
        assert render(facade, ToolCall("c", "show", {}), {}, wrong).text == "no file"
    assert caplog.text == ""


def test_a_result_may_be_an_error_without_a_renderer() -> None:
    facade = BoundFacade(mine(view({"is_failure": exit_code})), "m", ["read"])
    for code, failed in ((3, True), (0, False)):
        result = ToolResult("c", (Text("one"),), data={"exit": code})
        assert render(facade, ToolCall("c", "show", {"file": "a"}), {}, result).is_error is failed


def test_a_failure_may_be_a_success_of_this_harness() -> None:
    def name_code(context: RenderContext) -> str:
        return f"binary: {context.code}"

    table = view({"successes": {"not_text"}, "result": name_code})
    facade = BoundFacade(mine(table), "m", ["read"])
    for code, expected in (
        ("not_text", ("binary: not_text", False, "")),
        ("io_error", ("no", True, "io_error")),
    ):
        result = ToolResult("c", (Text("no"),), is_error=True, error_kind="execution", error_code=code)
        shown = render(facade, ToolCall("c", "show", {"file": "a"}), {}, result)
        assert (shown.text, shown.is_error, shown.error_code) == expected


def test_a_renderer_cannot_change_its_arguments() -> None:
    def clears(context: RenderContext) -> str:
        context.native.clear()
        context.base.clear()
        return "words"

    facade, tool_call, arguments = (
        BoundFacade(mine(view({"failure": clears})), "m", ["read"]),
        ToolCall("c", "show", {"x": 1}),
        {"path": "a"},
    )
    assert render(facade, tool_call, arguments, ToolResult("c", (Text("no"),), is_error=True)).text == "words"
    assert (tool_call.arguments, arguments) == ({"x": 1}, {"path": "a"})


# ---- tables that cannot work


@pytest.mark.parametrize(("facade", "sentence"), [
    (mine(view({"base": "reed"})), "tool 'show': unknown tool 'reed'; did you mean 'read'"),
    (mine(view(represents=frozenset({"reed"}))), "tool 'show': unknown tool 'reed'"),
    (mine(hides=frozenset({"reed"})), "hides: unknown tool 'reed'"),
    (mine(view(cases={})), "tool 'show' has no cases"),
    (mine(view(cases={"a": Case(base="read")})), "tool 'show' cannot choose between its cases"),
    (mine(view(name="")), "a tool has no name"),
    (mine(view(), view({"base": "write"})), "there are two tools 'show'"),
    (mine(view(), view(models="^m")), "there are two tools 'show'"),
    (mine(view(models="(")), "tool 'show': models is not a regular expression"),
    (mine(view(parameters=object_schema(file={"type": "txt"}))), "tool 'show': not a JSON Schema"),
    (mine(view(accepts={"file": {"type": "txt"}})), "tool 'show': not a JSON Schema"),
    (mine(view(parameters={"type": "string"})), "tool 'show' needs parameters of type \"object\""),
])  # fmt: skip
def test_a_table_that_cannot_work_is_an_error_when_it_is_used(facade: Facade, sentence: str) -> None:
    uses = (
        lambda: check_facade(facade, "m"),
        lambda: BoundFacade(facade, "m", ["read"]),
        lambda: Agent("simulator:ollama/m", facade=facade),
    )
    for use in uses:
        with pytest.raises(UsageError) as error:
            use()
        assert str(error.value).startswith(f"facade 'mine': {sentence}")
        assert "\n" not in str(error.value)


def test_values_of_other_types_are_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^facade 'mine' does not follow toolglot\.facades\.view: [^\n]+$"):
        check_facade(mine(view(parameters={"properties": 3})))
    with pytest.raises(UsageError, match=r"^cases of View: expected `str`, got `int`$"):
        view(cases={"": {"base": 3}})


@pytest.mark.parametrize("facade", [
    mine(view(models="^a"), view(models="^b")), mine(view(), view(hidden=True)), mine(view(), view(namespace="other")),
    mine(view({"base": "own"}), hides=frozenset({"own"})),
])  # fmt: skip
def test_valid_tables_are_accepted(facade: Facade) -> None:
    assert BoundFacade(facade, "a-1", ["read", "own"]).names


@pytest.mark.parametrize("name", FACADE_MODULES)
def test_our_own_tables_can_work(name: str) -> None:
    check_facade(replace(find_facade(name)))
    for model in ("gpt-5.5", "claude-opus-5", "gemini-3-pro", "qwen3"):
        check_facade(replace(find_facade(name)), model)


# ---- tools of the user


def lookup(key: str, limit: int = 3) -> dict[str, Any]:
    """Look something up."""
    return {"key": key, "limit": limit}


FIND = View(
    name="Find",
    description="Find it.",
    parameters=object_schema("word", word=string()),
    cases={"": Case(base="lookup", fields=(Field(native="word", base="key"),))},
)


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_a_facade_for_a_tool_of_the_user(profile: str) -> None:
    transport = make_transport()
    agent = Agent(make_engine(profile, transport), tools=[lookup], facade=mine(FIND))
    outcomes = asyncio.run(agent.run('call Find {"word": "x"} call Find {}')).outcomes
    assert [tool.name for tool in agent.view().model_view.tools()] == ["Find"]
    assert (outcomes[0].call.name, outcomes[0].call.arguments) == ("lookup", {"key": "x"})
    assert (outcomes[0].result.name, outcomes[0].result.data) == ("Find", {"key": "x", "limit": 3})
    assert "The call to Find was not run" in outcomes[1].result.text
    unknown = asyncio.run(agent.run("call! zzz {}")).outcomes[0].result.text
    assert unknown == "There is no such tool: 'zzz'; known: Find"
    change(agent, facade="auto")  # without the facade, the tool has its own name again
    asyncio.run(agent.run('call! lookup {"key": "y"}'))
    assert list_refusals(transport.sent) == []
    assert agent.save()


def test_a_facade_for_tools_of_the_user_and_built_in_ones() -> None:
    facade = mine(FIND, SHOW)
    agent = Agent("simulator", tools=[*base_tools(), lookup], facade=facade)
    names = {tool.name for tool in agent.view().model_view.tools()}
    assert {"Find", "show", "write"} <= names
    assert not {"lookup", "read"} & names
    outcomes = agent.run_sync('call Find {"word": "x"} call show {"file": "a.txt"}').outcomes
    assert [outcome.call.name for outcome in outcomes] == ["lookup", "read"]
    change(agent, facade="claude")
    result = agent.run_sync('call lookup {"key": "y"}')
    assert (result.outcomes[0].result.data, result.losses) == ({"key": "y", "limit": 3}, ())


def test_a_result_that_the_facade_words_has_no_data() -> None:
    case = Case(
        base="lookup", fields=(Field("word", "key"),), result=lambda context: f"found {context.data['key']}"
    )
    agent = Agent("simulator", tools=[lookup], facade=mine(replace(FIND, cases={"": case})))
    result = agent.run_sync('call Find {"word": "x"}').outcomes[0].result
    assert (result.text, result.data) == ("found x", None)


def test_a_tool_of_the_user_that_is_not_allowed_is_not_shown() -> None:
    agent = Agent("simulator", tools=[lookup], facade=mine(FIND), config=ToolConfig(allow=frozenset()))
    assert agent.view().model_view.tools() == ()
    assert agent.run_sync('call! Find {"word": "x"}').outcomes[0].result.error_kind == "not_found"


def test_our_own_tables_leave_tools_of_the_user_alone() -> None:
    def read(path: str) -> str:
        return path

    agent = Agent("simulator", tools=[read], facade=find_facade("claude-code"))
    assert [tool.name for tool in agent.view().model_view.tools()] == ["read"]
    assert agent.run_sync('call read {"path": "x"}').outcomes[0].result.text == "x"


def test_an_aborted_call_is_named_as_the_model_named_it() -> None:
    agent = Agent("simulator", tools=[lookup], facade=mine(FIND), config=ToolConfig(on_error="abort"))
    with pytest.raises(ToolError) as caught:
        agent.run_sync("call Find {}")
    assert (caught.value.tool, caught.value.code) == ("Find", "invalid_arguments")
    assert [issue.path for issue in caught.value.details] == ["$.word"]


# ---- what is known of the base tools


def test_our_tables_name_tools_and_parameters_that_exist(tmp_path: Path) -> None:
    tools = builtins(tmp_path, state_dir=tmp_path)
    tools.close()
    parameters = {
        tool.name: tool._spec.binder.parameter_names  # pyright: ignore[reportPrivateUsage] - with those that models do not see
        for tool in (*tools.all_tools, search_tools_tool(()), ScriptHost().tool)
    }
    assert parameters.keys() >= BASE_TOOLS
    for facade in map(find_facade, FACADE_MODULES):
        assert {*facade.hides} <= BASE_TOOLS
        for case in (case for view in facade.views for case in view.cases.values()):
            assert case.base in BASE_TOOLS
            names = {field if isinstance(field, str) else field.base for field in case.fields} | {*case.fixed}
            # "command" selects a case of the text editor and is not passed on.
            assert names - {"command"} <= parameters[case.base], (facade.id, case.base)
