"""A call that was not on offer never runs, whatever the model does: tool choice, hooks and one call at a
time.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.errors import UnknownName
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool
from toolglot.values.events import ToolFinished
from toolglot.values.messages import Reply, Text, ToolCall
from toolglot.values.request import Request, ToolChoice

from .agents import (
    PROVIDERS,
    Wiretap,
    check,
    check_bodies,
    collect_events,
    hook,
    kinds_of,
    make_agent,
    noting,
    outcome,
    results_of,
    run,
)

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYONE = (*PROVIDERS, "mistral", "deepseek")
PROVIDER = pytest.mark.parametrize("provider", EVERYONE)


def calls(*names: str) -> Reply:
    return Reply(tuple(ToolCall(f"id{index}", name, {}) for index, name in enumerate(names)), "tools")


def answer(request: Request) -> Reply:
    return Reply((Text("done"),))


def make_tools(ran: list[str]) -> list[Tool]:
    return [noting(ran, "t1", effects="read"), noting(ran, "t2", effects="read")]


CHOICES: list[tuple[ToolChoice, list[str], list[Any]]] = [
    (ToolChoice("none"), [], ["not_allowed", "not_allowed"]),
    (ToolChoice("auto", ("t1",)), ["t1"], [None, "not_allowed"]),
    (ToolChoice("required", ("t1",)), ["t1"], [None, "not_allowed"]),
    (ToolChoice("required", ("t1", "t2")), ["t1", "t2"], [None, None]),
    (ToolChoice("required"), ["t1", "t2"], [None, None]),
]


@PROVIDER
@LIVE
@pytest.mark.parametrize(("choice", "expected", "kinds"), CHOICES)
@pytest.mark.parametrize("eager", [False, True])
def test_a_tool_choice_is_enforced(
    provider: str, live: bool, choice: ToolChoice, expected: list[str], kinds: list[Any], eager: bool
) -> None:
    ran: list[str] = []
    wiretap = Wiretap(calls("t1", "t2"), answer)
    config = ToolConfig(tool_choice=choice, eager_start=eager)
    agent = make_agent(provider, wiretap, tools=make_tools(ran), config=config)
    result = run(outcome(agent, "go", streamed=live))
    assert sorted(ran) == expected
    assert [outcome.result.error_kind for outcome in result.outcomes] == kinds
    assert result.text == "done"
    refused = [outcome for outcome in result.outcomes if outcome.result.is_error]
    assert all(not outcome.ran and outcome.result.error_code == "tool_not_offered" for outcome in refused)
    check(agent.conversation)


@pytest.mark.parametrize(
    ("word", "expected"), [("none", []), ("t1", ["t1"]), ("required", ["t1", "t2"]), ("auto", ["t1", "t2"])]
)
@pytest.mark.parametrize("for_run", [False, True])
def test_a_choice_may_be_a_word(word: str, expected: list[str], for_run: bool) -> None:
    ran: list[str] = []
    wiretap = Wiretap(calls("t1", "t2"), answer)
    options: dict[str, Any] = {} if for_run else {"config": ToolConfig(tool_choice=word)}
    agent = make_agent("openai-chat", wiretap, tools=make_tools(ran), **options)
    run(agent.run("go", **({"tool_choice": word} if for_run else {})))
    assert sorted(ran) == expected
    chosen = {"type": "function", "function": {"name": "t1"}}
    assert wiretap.bodies[0].get("tool_choice", "auto") == (chosen if word == "t1" else word)


def test_a_word_that_names_no_tool_is_an_error() -> None:
    agent = make_agent("openai-chat", Wiretap(answer), tools=make_tools([]))
    with pytest.raises(UnknownName, match="'t3'"):
        run(agent.run("go", tool_choice="t3"))


@PROVIDER
@LIVE
def test_a_choice_is_free_after_the_first_request(provider: str, live: bool) -> None:
    ran: list[str] = []
    wiretap = Wiretap(calls("t2"), calls("t2"), answer)
    agent = make_agent(
        provider, wiretap, tools=make_tools(ran), config=ToolConfig(tool_choice=ToolChoice("auto", ("t1",)))
    )
    run(outcome(agent, "go", streamed=live))
    assert ran == ["t2"]
    assert kinds_of(agent.conversation) == ["not_allowed", None]
    assert "Available: t1." in results_of(agent.conversation)[0].text


@PROVIDER
@LIVE
@pytest.mark.parametrize("eager", [False, True])
def test_a_tool_that_a_hook_removed_does_not_run(provider: str, live: bool, eager: bool) -> None:
    ran: list[str] = []

    def hide(request: Request) -> Request:
        return replace(request, tools=tuple(tool for tool in request.tools if tool.name != "t2"))

    wiretap = Wiretap(calls("t2", "t1"), answer)
    agent = make_agent(
        provider,
        wiretap,
        tools=make_tools(ran),
        hooks=[hook(before_request=hide)],
        config=ToolConfig(eager_start=eager),
    )
    run(outcome(agent, "go", streamed=live))
    assert ran == ["t1"]
    assert kinds_of(agent.conversation) == ["not_allowed", None]


@PROVIDER
@LIVE
@pytest.mark.parametrize("eager", [False, True])
def test_one_call_at_a_time_is_enforced(provider: str, live: bool, eager: bool) -> None:
    ran: list[str] = []
    wiretap = Wiretap(calls("t1", "t2", "t2"), calls("t2"), answer)
    agent = make_agent(
        provider, wiretap, tools=make_tools(ran), config=ToolConfig(parallel=False, eager_start=eager)
    )
    result = run(outcome(agent, "go", streamed=live))
    assert ran == ["t1", "t2"]
    assert [outcome.result.error_code for outcome in result.outcomes] == [
        "",
        "one_call_at_a_time",
        "one_call_at_a_time",
        "",
    ]
    check(agent.conversation)


def test_the_one_call_is_the_first_that_was_on_offer() -> None:
    ran: list[str] = []
    config = ToolConfig(parallel=False, tool_choice=ToolChoice("auto", ("t2",)))
    agent = make_agent("anthropic", Wiretap(calls("t1", "t2"), answer), tools=make_tools(ran), config=config)
    run(agent.run("go"))
    assert ran == ["t2"]


def test_a_tool_that_does_not_exist_is_still_unknown() -> None:
    config = ToolConfig(tool_choice=ToolChoice("auto", ("t1",)))
    agent = make_agent("anthropic", Wiretap(calls("nothing"), answer), tools=make_tools([]), config=config)
    run(agent.run("go"))
    assert kinds_of(agent.conversation) == ["not_found"]


def test_a_refused_call_is_an_event_too() -> None:
    config = ToolConfig(tool_choice=ToolChoice("none"))
    agent = make_agent("anthropic", Wiretap(calls("t1"), answer), tools=make_tools([]), config=config)
    events = run(collect_events(agent.stream("go")))
    assert [event.outcome.result.error_code for event in events if isinstance(event, ToolFinished)] == [
        "tool_not_offered"
    ]


@pytest.mark.parametrize(("name", "names", "kind"), [
    ("Read", ("grep",), "not_allowed"), ("Read", ("read",), None), ("read", ("read",), "not_found"),
])  # fmt: skip
def test_built_in_tools_are_meant_under_all_of_their_names(
    tmp_path: Any, name: str, names: tuple[str, ...], kind: Any
) -> None:
    from toolglot import coding_tools

    (tmp_path / "a.txt").write_text("hello")
    arguments = {"file_path": str(tmp_path / "a.txt")} if name == "Read" else {"path": "a.txt"}
    wiretap = Wiretap(Reply((ToolCall("x", name, arguments),), "tools"), answer)
    config = ToolConfig(tool_choice=ToolChoice("auto", names))
    agent = make_agent("anthropic", wiretap, tools=coding_tools(tmp_path), config=config)
    run(agent.run("go"))
    assert kinds_of(agent.conversation) == [kind], results_of(agent.conversation)


@pytest.mark.parametrize(("name", "names", "kind"), [
    ("LS", ("Read",), "not_allowed"), ("ls", ("read",), "not_allowed"), ("LS", (), None), ("View", ("Read",), None),
])  # fmt: skip
def test_a_name_that_is_accepted_and_not_shown_was_not_on_offer(
    tmp_path: Any, name: str, names: tuple[str, ...], kind: Any
) -> None:
    from toolglot import coding_tools

    (tmp_path / "a.txt").write_text("hello")
    arguments = {"file_path": str(tmp_path / "a.txt")} if name == "View" else {"path": str(tmp_path)}
    wiretap = Wiretap(Reply((ToolCall("x", name, arguments),), "tools"), answer)
    config = ToolConfig(tool_choice=ToolChoice("auto", names))
    agent = make_agent("anthropic", wiretap, tools=coding_tools(tmp_path), config=config)
    run(agent.run("go"))
    assert kinds_of(agent.conversation) == [kind], results_of(agent.conversation)


@PROVIDER
@LIVE
@pytest.mark.parametrize("name", ["find", "crm.find"])
def test_a_tool_in_a_namespace_can_be_forced(provider: str, live: bool, name: str) -> None:
    ran: list[str] = []
    tools = [*make_tools(ran), noting(ran, "find", namespace="crm")]
    wiretap = Wiretap()
    agent = make_agent(
        provider, wiretap, tools=tools, config=ToolConfig(tool_choice=ToolChoice("required", (name,)))
    )
    run(outcome(agent, "Hello", streamed=live))
    can_force = agent.view().engine.profile.features.choices & {"named", "required"}
    assert ran == (["find"] if can_force else [])
    check_bodies(agent.view().engine, wiretap)
