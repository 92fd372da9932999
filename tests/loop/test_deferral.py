"""Many tools: which are deferred, what a conversation has loaded, and what every provider is sent of it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.many_tools import many_tools
from hypothesis import given
from hypothesis import strategies as st
from tests.agent_kit import change, setup_of

from toolglot import (
    Agent,
    ContextPolicy,
    ToolChoice,
    ToolConfig,
    ToolDefinition,
    UsageError,
    coding_tools,
    tool,
)
from toolglot.common.jsontext import dumps_text
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES
from toolglot.facades.parameters import object_schema, string
from toolglot.facades.view import Case, Facade, Field, View
from toolglot.loop.deferral import ToolTimeline, parse_defer, plan_deferral
from toolglot.loop.model_view import ModelView
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.messages import (
    Conversation,
    Message,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Request, effective_tools
from toolglot.wire.codec import decode_request

from .agents import PROVIDERS, Wiretap, check, check_bodies, kinds_of, make_agent, noting, results_of, run

TOOLS = many_tools()
SOME = [tool for tool in TOOLS if tool.name.startswith(("crm_get", "crm_search", "github_create"))]
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)


def asks(name: str, id: str = "c1", /, **arguments: Any) -> Reply:
    return Reply((ToolCall(id, name, arguments),), "tools")


def says(text: str) -> Reply:
    return Reply((Text(text),))


def tool_names_of(request: Request) -> set[str]:
    return {definition.qualified_name for definition in effective_tools(request).declared}


# ---- which tools


def few(count: int = 12, **fields: Any) -> list[ToolDefinition]:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "word " * 50}}}
    return [ToolDefinition(f"tool_{number}", "Does it.", schema, **fields) for number in range(count)]


def ends_with_3(definition: ToolDefinition) -> bool:
    return definition.name.endswith("3")


@pytest.mark.parametrize(
    ("defer", "expected"),
    [
        (None, None),
        (False, None),
        (True, 12),
        ("tool_1*", 3),
        (["tool_1", "tool_2"], 2),
        (["red"], 12),
        (ends_with_3, 1),
        (["nothing"], None),
    ],
)
def test_the_rule_selects_tools(defer: Any, expected: int | None) -> None:
    deferral = plan_deferral(few(tags={"red"}), resolve_profile("anthropic", "claude-sonnet-4-5"), defer)
    assert (deferral and len(deferral.names)) == expected
    assert deferral is None or not deferral.is_automatic
    assert deferral is None or repr(deferral) == f"<Deferral: {deferral.message}>"  # not all names


def test_the_words_of_the_settings_work_in_python_and_a_misspelt_name_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert [parse_defer(word) for word in ("auto", "all", "none", ["auto"])] == [None, True, False, None]
    assert setup_of(make_agent("openai-chat", tools=SOME, defer="all")).config.defer is True
    assert not caplog.records
    make_agent("openai-chat", tools=SOME, defer=["crm_gett*", "crm_get_*"])
    assert [record.getMessage() for record in caplog.records if "crm_gett" in record.getMessage()]
    with pytest.raises(UsageError, match="defer: pass names, patterns or tags of tools, not int"):
        make_agent("openai-chat", tools=SOME, defer=[3])


def test_tools_are_deferred_by_themselves_if_there_are_too_many() -> None:
    small, large = resolve_profile("groq", "qwen3"), resolve_profile("anthropic", "claude-sonnet-4-5")
    definitions = [tool.definition for tool in TOOLS]
    by_limit, by_share = plan_deferral(definitions, small, None), plan_deferral(definitions, large, None)
    assert by_limit is not None
    assert "at most 128 tools" in by_limit.reason
    assert by_share is not None
    assert "% of the context window" in by_share.reason
    assert by_share.is_automatic
    assert len(by_share.names) == 300
    assert by_share.tokens == by_share.total_tokens > 30_000
    assert plan_deferral(definitions[:50], large, None) is None
    assert plan_deferral(few(9), small.apply({"limits.context": 1000}), None) is None, (
        "a search would cost more"
    )
    assert plan_deferral(few(), small.apply({"limits.context": 1000}), None) is not None


def test_there_is_room_for_tools_that_the_loop_and_the_provider_add() -> None:
    profile = resolve_profile("groq", "qwen3").apply({"limits.tools": 14})
    assert plan_deferral(few(12), profile, None) is None
    assert plan_deferral(few(13), profile, None) is not None, "read_result may come, and final_answer"
    assert plan_deferral(few(12), profile, None, hosted_count=1) is not None


def test_a_name_that_was_looked_up_in_vain_is_still_read_as_a_tool_of_a_namespace() -> None:
    view = make_agent("openai-chat", tools=[late.replace(namespace="crm")], defer=True).view()
    assert view.model_view.translate_name("crm__late") == ()
    assert view.model_view.annotate(asks("crm__late", x="1"))[0].calls[0].namespace == "crm"


def test_a_tool_can_say_that_it_is_deferred() -> None:
    profile = resolve_profile("anthropic", "claude-sonnet-4-5")
    definitions = [*few(3), ToolDefinition("rare", "Rare.", deferred=True)]
    deferral = plan_deferral(definitions, profile, None)
    assert deferral is not None
    assert deferral.names == {"rare"}
    assert plan_deferral(definitions, profile, False) is None

    @tool(deferred=True)
    def seldom() -> str:
        """Seldom needed."""
        return "ok"

    assert seldom.definition.deferred
    assert make_agent("anthropic", tools=[seldom]).view().deferral is not None


def test_built_in_tools_stay_and_a_tool_of_that_name_turns_it_off(caplog: pytest.LogCaptureFixture) -> None:
    profile = resolve_profile("openai-chat", "gpt-4o")
    view = ModelView(
        profile,
        ToolRegistry([*TOOLS, Tool(len, name="mine", tags=["builtin"], parameters={"type": "object"})]),
    )
    shown = {definition.name: definition for definition in view.tools()}
    assert not shown["mine"].deferred
    assert shown["search_tools"].finds_tools
    assert "crm (18)" in shown["search_tools"].description
    assert sum(definition.deferred for definition in shown.values()) == 300
    taken = ModelView(
        profile, ToolRegistry([*TOOLS, Tool(len, name="search_tools", parameters={"type": "object"})])
    )
    assert taken.deferral is None
    assert not any(definition.deferred for definition in taken.tools())
    assert "a tool of the agent is called search_tools" in caplog.text


# ---- every provider


@EVERYWHERE
def test_300_tools_are_offered_found_and_called(provider: str) -> None:
    """Within the limits of every provider; the same conversation, and legal bodies, everywhere."""
    wiretap = Wiretap(
        asks("search_tools", "c1", query="create a github issue"),
        asks("github_create_issue", "c2", repository="a/b", title="Broken"),
        says("done"),
        says("again"),
    )
    agent = make_agent(provider, wiretap, tools=TOOLS, defer=True)
    result = run(agent.run("Report the bug."))
    assert result.text == "done"
    assert [result.text for result in results_of(agent.conversation) if result.is_error] == []
    assert results_of(agent.conversation)[1].text.startswith("github_create_issue")
    assert "github_create_issue" in agent.view().loaded_tools
    assert not result.losses
    run(agent.run("More?"))
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)
    deferral = agent.view().deferral
    assert deferral is not None
    usage = run(agent.context_usage())
    assert usage.parts["tools"] < deferral.tokens / 10


# ---- what a conversation has loaded


def search_messages(*names: str, id: str = "s") -> list[Message]:
    content = (Text("found"), ToolsChanged(loaded=names))
    return [
        Message("assistant", (ToolCall(id, "search_tools", {"query": "q"}),)),
        tool_results(ToolResult(id, content, "search_tools")),
    ]


def head_of(
    messages: list[Message], tools: list[ToolDefinition], start: int = 0, limit: int | None = None
) -> tuple[list[str], list[str]]:
    """The tools that are shown from the start, and those that are deferred."""
    head = ToolTimeline(Conversation(messages)).head_tools(tuple(tools), start, limit, lambda name: (name,))
    return [item.name for item in head if not item.deferred], [item.name for item in head if item.deferred]


def test_a_loaded_tool_stays_offered_when_its_search_is_no_longer_shown() -> None:
    tools = [ToolDefinition("search_tools", finds_tools=True), *few(3, deferred=True)]
    messages = [
        user("hi"),
        *search_messages("tool_1"),
        assistant("ok"),
        user("go on"),
        *search_messages("tool_2"),
    ]
    assert head_of(messages, tools) == (["search_tools"], ["tool_0", "tool_1", "tool_2"])
    assert head_of(messages, tools, start=4) == (["search_tools", "tool_1"], ["tool_0", "tool_2"])


def test_a_tool_that_was_called_without_a_search_is_shown_from_then_on() -> None:
    tools = [ToolDefinition("search_tools", finds_tools=True), *few(3, deferred=True)]
    call = [
        Message("assistant", (ToolCall("c", "tool_2", {}),)),
        tool_results(ToolResult("c", (Text("ok"),))),
    ]
    assert head_of([user("hi"), *call], tools) == (["search_tools", "tool_2"], ["tool_0", "tool_1"])


def test_beyond_the_limit_the_tool_that_was_not_used_for_longest_goes() -> None:
    tools = [ToolDefinition("search_tools", finds_tools=True), *few(5, deferred=True)]
    messages = [user("hi"), *search_messages("tool_0", "tool_1"), *search_messages("tool_2", id="t")]
    used = Message("assistant", (ToolCall("c", "tool_0", {}),))
    assert head_of([*messages, used], tools, limit=3)[1] == ["tool_0", "tool_2", "tool_3", "tool_4"]


def test_the_head_is_the_same_object_while_nothing_changes() -> None:
    tools = (ToolDefinition("search_tools", finds_tools=True), *few(3, deferred=True))
    conversation = Conversation([user("hi"), *search_messages("tool_1")])
    timeline = ToolTimeline(conversation)
    first = timeline.head_tools(tools, 0, None, lambda name: (name,))
    conversation.append(assistant("ok"), user("more"), *search_messages("tool_2", id="t"))
    assert timeline.head_tools(tools, 0, None, lambda name: (name,)) is first
    assert timeline.loaded == ("tool_1", "tool_2")


# ---- tools that come and go


@tool
def early(x: str) -> str:
    """Was there from the start."""
    return "early"


@tool
def late(x: str) -> str:
    """Comes later."""
    return f"late {x}"


def changes_of(agent: Agent) -> list[tuple[list[str], tuple[str, ...]]]:
    return [
        ([item.name for item in block.added], block.removed)
        for message in agent.conversation
        for block in message.blocks
        if isinstance(block, ToolsChanged)
    ]


@EVERYWHERE
def test_tools_come_and_go_while_the_conversation_goes_on(provider: str) -> None:
    wiretap = Wiretap(says("hello"), asks("late", x="1"), says("done"), says("gone"), says("back"))
    agent = make_agent(provider, wiretap, tools=[early])
    run(agent.run("Hi."))
    assert changes_of(agent) == []
    agent.add_tools([late])
    result = run(agent.run("Use it."))
    assert [result.text for result in results_of(agent.conversation)] == ["late 1"]
    assert not result.losses
    agent.remove_tools("late")
    run(agent.run("Now without."))
    assert changes_of(agent) == [(["late"], ()), ([], ("late",))]
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)
    other = Agent.load(agent.save(), tools=[early, late], transport=wiretap)
    run(other.run("Again."))
    assert changes_of(other)[2:] == [(["late"], ())], (
        "a conversation that was loaded knows what it said itself"
    )
    check(other.conversation)


def pick(x: str) -> str:
    return x


def make_picker(**schema: Any) -> Tool:
    return Tool(pick, parameters={"type": "object", "properties": {"x": {"type": "string", **schema}}})


def test_a_tool_whose_schema_has_tuples_is_told_once() -> None:
    picker = make_picker(enum=("a", "b"))
    wiretap = Wiretap(*map(says, "abc"))
    agent = make_agent("openai-chat", wiretap, tools=[early])
    run(agent.run("Hi."))
    agent.add_tools([picker])
    run(agent.run("Ho."))
    other = Agent.load(agent.save(), tools=[early, picker], transport=wiretap)
    run(other.run("Again."))
    assert changes_of(other) == [(["pick"], ())]


def test_a_tool_that_cannot_be_saved_costs_no_run(caplog: pytest.LogCaptureFixture) -> None:
    wiretap = Wiretap(says("hello"), says("again"))
    agent = make_agent("openai-chat", wiretap, tools=[early])
    run(agent.run("Hi."))
    agent.add_tools([make_picker(enum={"a"}), late])
    assert run(agent.run("Ho.")).text == "again"
    assert changes_of(agent) == [(["late"], ())]
    assert "the model is not told of the new tool 'pick'" in caplog.text
    assert Agent.load(agent.save(), tools=[early, late], transport=wiretap).conversation == agent.conversation


@tool(name="early")
def renewed(x: str) -> str:
    """Was written anew."""
    return f"renewed {x}"


@pytest.mark.parametrize(
    "model",
    [
        *(f"anthropic/claude-{name}" for name in ("opus-4-8", "opus-5", "sonnet-5", "sonnet-4-5")),
        *("openai-responses/gpt-5.6", "openai-responses/gpt-5.1", "openai-chat", "gemini", "ollama"),
    ],
)
def test_tools_are_added_removed_and_replaced_on_every_model(model: str) -> None:
    """The simulator refuses what the providers refuse, such as a reference to a tool that the request does
    not declare.
    """
    wiretap = Wiretap(
        *(says("hello"), asks("late", x="1"), says("used"), says("without early"), says("without late")),
        *(asks("early", "c2", x="2"), says("used"), says("loaded"), says("again")),
    )
    agent = make_agent(model, wiretap, tools=[early, Tool(early.function, name="other")])
    run(agent.run("Hi."))
    agent.add_tools([late])
    run(agent.run("Use it."))
    agent.remove_tools("early")
    run(agent.run("Without."))
    agent.remove_tools("late")
    run(agent.run("Without both."))
    agent.add_tools([renewed])
    run(agent.run("Use it."))
    assert [result.text for result in results_of(agent.conversation)] == ["late 1", "renewed 2"]
    other = Agent.load(agent.save(), tools=[Tool(early.function, name="other")], transport=wiretap)
    run(other.run("Where is it?"))
    assert changes_of(other) == [
        (["late"], ()),
        ([], ("early",)),
        ([], ("late",)),
        (["early"], ()),
        ([], ("early",)),
    ]
    run(other.run("And now?"))
    check(other.conversation)


def test_a_removed_tool_stays_declared_where_the_history_can_remove_it() -> None:
    wiretap = Wiretap(*map(says, "abc"))
    agent = make_agent("anthropic/claude-opus-4-8", wiretap, tools=[early, late])
    run(agent.run("Hi."))
    agent.remove_tools("early")
    run(agent.run("Without."))
    assert [names_declared_in(body) for body in wiretap.bodies] == [["early", "late"]] * 2
    assert '"tool_removal"' in dumps_text(wiretap.bodies[1])
    other = Agent.load(agent.save(), tools=[late], transport=wiretap)
    run(other.run("Again."))
    assert names_declared_in(wiretap.bodies[2]) == ["late"]
    assert '"tool_removal"' not in dumps_text(wiretap.bodies[2]), "the definition is not known any more"


@pytest.mark.parametrize(
    "model", ["openai-chat", "openai-responses/gpt-5.6", "anthropic/claude-opus-4-8", "gemini"]
)
def test_a_tool_that_was_announced_is_replaced_although_it_is_deferred_now(model: str) -> None:
    wiretap = Wiretap(says("hello"), says("again"), asks("late", x="1"), says("done"))
    agent = make_agent(model, wiretap, tools=[early])
    run(agent.run("Hi."))
    agent.add_tools([late])
    run(agent.run("Ho."))
    change(agent, defer=["late"])
    agent.add_tools([Tool(renewed.function, name="late")], replace=True)
    run(agent.run("Use it."))
    assert changes_of(agent) == [(["late"], ()), (["late"], ())]
    request = decode_request(
        agent.view().engine.profile.wire, wiretap.bodies[-1], model=agent.view().engine.profile.model
    )
    assert [tool.description for tool in effective_tools(request).declared if tool.name == "late"] == [
        "Was written anew."
    ]
    check_bodies(agent.view().engine, wiretap)


def test_a_tool_that_came_back_as_a_deferred_one_is_told_when_it_is_not_any_more() -> None:
    wiretap = Wiretap(*map(says, "abcd"), asks("early", x="1"), says("done"))
    agent = make_agent("anthropic/claude-opus-4-8", wiretap, tools=[early, late])
    run(agent.run("Hi."))
    agent.remove_tools("early")
    run(agent.run("Without."))
    change(agent, defer=["early"])
    agent.add_tools([early])
    run(agent.run("It is deferred."))
    assert changes_of(agent) == [([], ("early",))]
    change(agent, defer=False)
    run(agent.run("It is there."))
    assert changes_of(agent) == [([], ("early",)), (["early"], ())]
    run(agent.run("Use it."))
    assert [result.text for result in results_of(agent.conversation)] == ["early"]
    check_bodies(agent.view().engine, wiretap)


def test_a_tool_that_came_back_and_was_found_can_be_called() -> None:
    wiretap = Wiretap(
        says("a"),
        says("b"),
        asks("search_tools", query="select:early"),
        asks("early", "c2", x="1"),
        says("done"),
    )
    agent = make_agent("anthropic/claude-opus-4-8", wiretap, tools=[early, late])
    run(agent.run("Hi."))
    agent.remove_tools("early")
    run(agent.run("Without."))
    change(agent, defer=["early"])
    agent.add_tools([early])
    run(agent.run("Find it and use it."))
    assert results_of(agent.conversation)[-1].text == "early"
    check_bodies(agent.view().engine, wiretap)
    head = (ToolDefinition("early", deferred=True),)
    assert ToolTimeline(agent.conversation).offered_tools(head, 0) == [*head]


def test_nothing_is_told_before_the_first_reply_or_of_deferred_tools() -> None:
    agent = make_agent("anthropic", Wiretap(says("a"), says("b")), tools=[early], defer=["late"])
    agent.add_tools([Tool(early.function, name="also")])
    run(agent.run("Hi."))
    agent.add_tools([late])
    run(agent.run("Ho."))
    assert changes_of(agent) == []
    deferral = agent.view().deferral
    assert deferral is not None
    assert deferral.names == {"late"}


@EVERYWHERE
def test_visible_tools_are_those_that_the_model_sees_now(provider: str) -> None:
    wiretap = Wiretap(asks("search_tools", query="late"), says("found"), says("added"))
    agent = make_agent(
        provider, wiretap, tools=[Tool(early.function, name="other"), early, late], defer=["early", "late"]
    )

    def names() -> set[str]:
        return {definition.name for definition in agent.view().visible_tools}

    assert names() == {"other", "search_tools"}
    run(agent.run("Find it."))
    assert agent.view().loaded_tools == ("late",)
    assert names() == {"other", "search_tools", "late"}
    agent.add_tools([Tool(early.function, name="more")])
    run(agent.run("Go on."))
    assert names() == {"other", "search_tools", "late", "more"}


# ---- calls without a search, and native names


@EVERYWHERE
def test_a_call_without_a_search_runs_if_its_arguments_are_valid(provider: str) -> None:
    """Otherwise its result has the schema; the tool is loaded either way."""
    good, bad = {"id": "7"}, {"number": 7}
    wiretap = Wiretap(
        Reply((ToolCall("c1", "crm_get_deal", good), ToolCall("c2", "crm_get_contact", bad)), "tools"),
        asks("crm_get_contact", "c3", id="8"),
        says("done"),
    )
    agent = make_agent(provider, wiretap, tools=SOME, defer=True)
    run(agent.run("Go."))
    first, second, third = results_of(agent.conversation)
    assert first.text == "crm_get_deal [('id', '7')]"
    assert second.is_error
    assert '"description":"The id of the contact."' in second.text
    assert third.text == "crm_get_contact [('id', '8')]"
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


FINDER = View(
    name="FindTools",
    description="Finds tools.",
    parameters=object_schema("words", words=string()),
    cases={"": Case(base="search_tools", fields=(Field("words", "query"),))},
)
PEEK = View(
    name="Peek", description="Shows files.", parameters=object_schema(), cases={"": Case(base="list_dir")}
)


def test_a_facade_names_the_search_and_defers_tools_of_its_own(tmp_path: Path) -> None:
    """Another model, with another facade, has the same tools under its own names."""
    facade = Facade(
        id="mine",
        title="Mine",
        views=[FINDER, PEEK],
        defers={"Peek"},
        hides=BASE_TOOLS - {"list_dir", "search_tools"},
    )
    wiretap = Wiretap(asks("FindTools", words="peek"), asks("Peek", "c2"), says("done"), says("again"))
    tools = [*coding_tools(tmp_path), early]
    agent = make_agent("anthropic", wiretap, tools=tools, facade=facade, defer=True)
    shown = {item.name: item for item in agent.view().model_view.tools()}
    assert set(shown) == {"FindTools", "Peek", "early"}
    assert [name for name, item in shown.items() if item.deferred] == ["Peek", "early"]
    assert shown["FindTools"].finds_tools
    assert shown["FindTools"].description.endswith("2 tools can be found: Peek, early.")
    run(agent.run("Go."))
    assert agent.view().loaded_tools == ("Peek",)
    assert [result.is_error for result in results_of(agent.conversation)] == [False, False]
    other = Agent.load(
        agent.save(), "simulator:gemini", tools=tools, facade="neutral", defer=["list_dir"], transport=wiretap
    )
    run(other.run("Again."))
    declared = [
        item["name"] for group in wiretap.bodies[-1]["tools"] for item in group["functionDeclarations"]
    ]
    assert "list_dir" in declared
    check(other.conversation)


# ---- bytes


def common_prefix(first: bytes, second: bytes) -> int:
    return next(
        (index for index, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]),
        len(first),
    )


def names_declared_in(body: dict[str, Any]) -> list[str]:
    """The tools of a body that the model is shown from the start."""
    tools = [item for tool in body["tools"] for item in tool.get("functionDeclarations") or [tool]]
    return [item.get("function", item)["name"] for item in tools if not item.get("defer_loading")]


@pytest.mark.parametrize(
    ("model", "keeps_prefix"),
    [
        ("anthropic:claude-sonnet-4-5", True),
        ("openai:gpt-5.4", True),
        ("openai-chat:gpt-4o", False),
        ("gemini:gemini-3-pro-preview", False),
        ("ollama:qwen3", False),
    ],
)
def test_a_search_leaves_the_prefix_as_it_is_where_the_wire_allows(model: str, keeps_prefix: bool) -> None:
    wiretap = Wiretap(
        asks("search_tools", "c1", query="create a github issue"),
        asks("github_create_issue", "c2", repository="a/b", title="Broken"),
        says("done"),
        asks("search_tools", "c3", query="bill a customer"),
        says("bye"),
    )
    agent = Agent(model, transport=wiretap, key="k", tools=TOOLS, defer=True)
    run(agent.run("Report the bug."))
    run(agent.run("And bill them."))
    bodies = [request.body for request in wiretap.requests]
    for before, after in pairwise(bodies):
        # but for the end of the body, and cache marks
        is_prefix = common_prefix(before, after) >= len(before) - 200
        assert is_prefix or not keeps_prefix, (before[:2000], after[:2000])
    limit = agent.view().engine.profile.limits.tools
    shown = [names_declared_in(body) for body in wiretap.bodies]
    assert max(map(len, shown)) <= (limit or 20)
    assert shown[0] == ["search_tools"]
    assert len(bodies[0]) < 10_000 or model.startswith("anthropic"), "only Anthropic is sent what is deferred"
    if not keeps_prefix:
        assert shown[1] == ["search_tools", *agent.view().loaded_tools[:5]]
    check_bodies(agent.view().engine, wiretap)


def test_what_was_deferred_automatically_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "toolglot.loop"):
        agent = make_agent("openai-chat", Wiretap(says("hi")), tools=TOOLS)
        result = run(agent.run("Hi."))
    deferral = agent.view().deferral
    assert deferral is not None
    assert deferral.message in [repair.reason for repair in result.repairs]
    assert deferral.message in caplog.text
    assert deferral.message.startswith("300 tools deferred, which saves about 32,")


# ---- the same conversation elsewhere


def test_what_was_loaded_stays_loaded_on_every_model_and_after_truncation() -> None:
    wiretap = Wiretap(
        asks("search_tools", query="select:crm_get_deal"), *(says(f"answer {number}") for number in range(20))
    )
    agent = make_agent("anthropic", wiretap, tools=SOME, defer=True)
    run(agent.run("Find it."))
    for provider in (*PROVIDERS, *PROVIDERS):
        agent.switch(f"simulator:{provider}")
        result = run(agent.run("Go on."))
        assert [loss for loss in result.losses if loss.subject != "thinking"] == []
        if provider in ("openai-chat", "gemini", "ollama"):
            assert names_declared_in(wiretap.bodies[-1]) == ["search_tools", "crm_get_deal"]
    assert agent.view().loaded_tools == ("crm_get_deal",)
    check(agent.conversation)
    change(agent, context=ContextPolicy(budget=800, when_full="trim"))
    agent.switch("simulator:openai-chat")
    count = len(wiretap.bodies)
    result = run(agent.run("word " * 500))
    body = wiretap.bodies[count]
    assert any(loss.where == "context" for loss in result.losses)
    assert not [message for message in body["messages"] if message.get("tool_calls")], (
        "the search is no longer shown"
    )
    assert {*names_declared_in(body)} == {"search_tools", "crm_get_deal"}


def test_another_agent_on_the_same_conversation_knows_what_was_loaded() -> None:
    wiretap = Wiretap(asks("search_tools", query="select:crm_get_deal"), says("found"), says("again"))
    agent = make_agent("gemini", wiretap, tools=SOME, defer=True)
    run(agent.run("Find it."))
    other = Agent.load(agent.save(), "simulator:ollama", tools=SOME, defer=True, transport=wiretap)
    run(other.run("Go on."))
    assert names_declared_in(wiretap.bodies[-1]) == ["search_tools", "crm_get_deal"]


def test_a_hook_and_a_choice_limit_what_messages_have_added() -> None:
    wiretap = Wiretap(
        says("hello"), asks("late", x="1"), says("done"), asks("late", "c2", x="2"), says("done")
    )
    agent = make_agent("openai-chat", wiretap, tools=[early])
    run(agent.run("Hi."))
    agent.add_tools([late])
    run(agent.run("Use the other.", tool_choice=ToolChoice("auto", ("early",))))
    run(agent.run("Use it.", allow=["late"]))
    assert [result.error_code for result in results_of(agent.conversation)] == ["tool_not_offered", ""]
    assert names_declared_in(wiretap.bodies[-1]) == ["late"]
    run(agent.run("Nothing.", allow=["early"]))
    assert names_declared_in(wiretap.bodies[-1]) == ["early"]


@EVERYWHERE
def test_a_deferred_tool_can_be_chosen(provider: str) -> None:
    wiretap = Wiretap(asks("crm_get_deal", id="1"), says("done"))
    agent = make_agent(provider, wiretap, tools=SOME, defer=True)
    result = run(agent.run("Go.", tool_choice=ToolChoice("required", ("crm_get_deal",))))
    assert [
        loss for loss in result.losses if "omitted" not in loss.reason and "forced" not in loss.reason
    ] == []
    assert "crm_get_deal" in names_declared_in(wiretap.bodies[0])
    assert "crm_get_deal" in names_declared_in(wiretap.bodies[1]), "it has been called"
    assert [result.text for result in results_of(agent.conversation)] == ["crm_get_deal [('id', '1')]"]
    check_bodies(agent.view().engine, wiretap)


def test_a_tool_of_the_user_gains_nothing_by_the_name_of_ours() -> None:
    """What the loop adds runs unasked; a tool of the user does not, whatever it is called and even if it only
    reads.
    """
    ran: list[str] = []
    for name in ("search_tools", "read_result", "final_answer", "run_code"):
        agent = make_agent(
            "anthropic", Wiretap(asks(name), says("ok")), tools=[noting(ran, name, approval=True)]
        )
        assert run(agent.run("Go.")).stop == "approval"
        reader = noting(ran, name, effects="read")
        agent = make_agent(
            "anthropic", Wiretap(asks(name), says("ok")), tools=[reader], config=ToolConfig(ask={"read"})
        )
        assert run(agent.run("Go.")).stop == "approval"
        for config in (ToolConfig(deny=(name,)), ToolConfig(allow=())):
            agent = make_agent("anthropic", Wiretap(asks(name), says("ok")), tools=[reader], config=config)
            assert run(agent.run("Go.")).stop == "end"
            assert kinds_of(agent.conversation) == ["not_allowed"]
    assert ran == []


@EVERYWHERE
def test_tools_of_a_namespace_are_found_and_called(provider: str) -> None:
    """With a search and without, by the name that the wire has for them."""
    tools = [tool.replace(namespace=space) for tool in (early, late) for space in ("crm", "wiki")]
    wiretap = Wiretap(
        asks("crm__late", x="1"),  # not declared yet
        asks("search_tools", "c2", query="select:wiki.late"),
        says("found"),
    )
    agent = make_agent(provider, wiretap, tools=tools, defer=True)
    run(agent.run("Go."))
    assert results_of(agent.conversation)[0].text == "late 1"
    assert agent.view().loaded_tools == ("wiki.late",)
    offered = effective_tools(Request("", agent.conversation, agent.view().model_view.tools()))
    assert [item.qualified_name for item in offered.declared] == ["search_tools", "wiki.late"]
    if provider in ("openai-chat", "gemini", "ollama"):
        assert {*names_declared_in(wiretap.bodies[-1])} == {"search_tools", "crm__late", "wiki__late"}
    check_bodies(agent.view().engine, wiretap)


def test_tools_that_were_added_count_in_the_context() -> None:
    agent = make_agent("anthropic", Wiretap(says("a"), says("b")), tools=[early])
    run(agent.run("Hi."))
    before = run(agent.context_usage()).parts["tools"]
    agent.add_tools([late])
    run(agent.run("Ho."))
    assert run(agent.context_usage()).parts["tools"] > before


def test_every_facade_can_search(tmp_path: Path) -> None:
    tools = [*coding_tools(tmp_path), *SOME]
    for facade in FACADE_MODULES:
        view = make_agent("anthropic", tools=tools, facade=facade, defer=True, code_mode=False).view()
        finder = next(item for item in view.model_view.tools() if item.finds_tools)
        parameter = (finder.parameters or {})["required"][0]
        wiretap = Wiretap(
            asks(finder.name, **{parameter: "create github issue"}),
            asks("github_create_issue", "c2", repository="a/b"),
            says("ok"),
        )
        agent = make_agent("anthropic", wiretap, tools=tools, facade=facade, defer=True, code_mode=False)
        run(agent.run("Go."))
        assert [result.text for result in results_of(agent.conversation) if result.is_error] == [], facade
        assert "github_create_issue" in agent.view().loaded_tools, facade
        check_bodies(agent.view().engine, wiretap)


@given(st.lists(st.tuples(st.sampled_from(["load", "call"]), st.integers(0, 5)), max_size=8), st.data())
def test_whatever_was_loaded_or_called_is_offered_wherever_the_history_begins(
    events: list[tuple[str, int]], data: st.DataObject
) -> None:
    tools = (ToolDefinition("search_tools", finds_tools=True), *few(6, deferred=True))
    conversation, used = Conversation([user("hi")]), set[str]()
    timeline = ToolTimeline(conversation)
    for count, (event, number) in enumerate(events):
        name, id = f"tool_{number}", f"c{count}"
        call = [
            Message("assistant", (ToolCall(id, name, {}),)),
            tool_results(ToolResult(id, (Text("ok"),), name)),
        ]
        conversation.append(*(search_messages(name, id=id) if event == "load" else call))
        used.add(name)
        start = data.draw(st.integers(0, len(conversation)))
        head = timeline.head_tools(tools, start, None, lambda name: (name,))
        assert tool_names_of(Request("", conversation[start:], head)) == {"search_tools", *used}
        assert {item.qualified_name for item in timeline.offered_tools(head, start)} == {
            "search_tools",
            *used,
        }


def test_in_code_mode_tools_that_were_added_are_for_code() -> None:
    pytest.importorskip("pydantic_monty")
    wiretap = Wiretap(says("a"), says("b"))
    agent = make_agent("openai-chat", wiretap, tools=[early], code_mode="python")
    run(agent.run("Hi."))
    if names_declared_in(wiretap.bodies[0]) != ["run_code"]:
        pytest.skip("no sandbox for code here")
    agent.add_tools([late])
    run(agent.run("Ho."))
    assert names_declared_in(wiretap.bodies[1]) == ["run_code"]
    assert "def late(" in wiretap.bodies[1]["tools"][0]["function"]["description"]
