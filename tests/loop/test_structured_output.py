"""Structured output of a run: natively where the wire can be held to a schema, else through a final tool;
always checked.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from tests.agent_kit import change
from typing_extensions import TypedDict

from toolglot.common.jsontext import dumps_text, loads
from toolglot.errors import MalformedReply, MissingOutput, NameConflict, UsageError
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import Reply, StopReason, Text, ToolCall
from toolglot.values.request import Request

from .agents import PROVIDERS, Doc, Wiretap, check, check_bodies, kinds_of, make_agent, outcome, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYONE = (*PROVIDERS, "mistral", "deepseek")
# by provider: whether the answer is held to a schema (without tools, with tools)
NATIVE = {
    "openai-chat": (True, True),
    "openai-responses": (True, True),
    "anthropic": (True, True),
    "gemini": (True, False),
    "ollama": (True, False),
    "deepseek": (False, False),
}


class City(BaseModel):
    name: str
    people: int


@dataclass
class Size:
    width: int
    height: int


@dataclass
class Node:
    name: str
    below: "list[Node]"


class Entry(TypedDict):
    title: str
    done: bool


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
SHAPES: list[tuple[str, Any, str, Any]] = [
    ("model", City, '{"name": "Rome", "people": 3}', City(name="Rome", people=3)),
    ("dataclass", Size, '{"width": 2, "height": 3}', Size(2, 3)),
    ("typed dict", Entry, '{"title": "t", "done": true}', {"title": "t", "done": True}),
    ("list", list[int], "[1, 2, 3]", [1, 2, 3]),
    ("number", int, "42", 42),
    ("wrapped list", list[City], '{"value": [{"name": "Rome", "people": 3}]}', [City(name="Rome", people=3)]),
    ("string", str, '{"value": "42"}', "42"),
    ("boolean", bool, '{"value": false}', False),
    ("union", City | None, '{"value": {"name": "Rome", "people": 3}}', City(name="Rome", people=3)),
    ("none", City | None, '{"value": null}', None),
    ("scalars", int | str, '{"value": "x"}', "x"),
    (
        "recursive",
        Node,
        '{"value": {"name": "a", "below": [{"name": "b", "below": []}]}}',
        Node("a", [Node("b", [])]),
    ),
    ("recursive list", list[Node], '{"value": [{"name": "b", "below": []}]}', [Node("b", [])]),
    (
        "list of typed dicts",
        list[Entry],
        '{"value": [{"title": "t", "done": true}]}',
        [{"title": "t", "done": True}],
    ),
    ("schema", SCHEMA, '{"name": "Rome", "people": 3}', {"name": "Rome", "people": 3}),
    ("array schema", {"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
]
SHAPE = pytest.mark.parametrize(
    ("shape", "text", "value"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES]
)


@tool(effects="read")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def has_final(request: Request) -> bool:
    return any(tool.name == "final_answer" for tool in request.tools)


def answers(text: str, *, stop: StopReason = "end") -> Any:
    """A model that gives an answer in the way that it was asked for."""

    def reply(request: Request) -> Reply:
        if not has_final(request):
            return Reply((Text(text),), stop)
        value: Any = loads(text)
        final = next(tool for tool in request.tools if tool.name == "final_answer")
        wrapped = "value" in (final.parameters or {}).get("properties", {}) and value.__class__ is not dict
        arguments: dict[str, Any] = {"value": value} if wrapped else value
        return Reply((ToolCall("", "final_answer", arguments),), "tools")

    return reply


def calls(request: Request) -> Reply:
    return Reply((ToolCall("", "add", {"a": 1, "b": 2}),), "tools")


def final_sent(body: Doc) -> bool:
    return "final_answer" in dumps_text(body.get("tools", []))


def schema_sent(body: Doc) -> bool:
    words = ("json_schema", "responseSchema", "responseJsonSchema", "output_config", "output_format")
    return any(word in dumps_text(body) for word in words) or isinstance(body.get("format"), dict)


@pytest.mark.untraced
@pytest.mark.parametrize("provider", EVERYONE)
@SHAPE
@LIVE
def test_an_answer_after_a_tool_has_the_shape(
    provider: str, shape: Any, text: str, value: Any, live: bool
) -> None:
    wiretap = Wiretap(calls, answers(text))
    agent = make_agent(provider, wiretap, tools=[add], output_type=shape)
    result = run(outcome(agent, "go", streamed=live))
    assert result.output == value
    assert type(result.output) is type(value)
    assert result.stop == "end"
    assert len(wiretap.bodies) == 2
    check(agent.conversation)
    if provider in NATIVE:
        native = NATIVE[provider][1]
        assert [final_sent(body) for body in wiretap.bodies] == [not native] * 2
        assert [schema_sent(body) for body in wiretap.bodies] == [native] * 2
    if provider in PROVIDERS:
        check_bodies(agent.view().engine, wiretap)


@pytest.mark.parametrize("provider", EVERYONE)
@SHAPE
def test_an_answer_without_tools_has_the_shape(provider: str, shape: Any, text: str, value: Any) -> None:
    wiretap = Wiretap(answers(text))
    agent = make_agent(provider, wiretap, output_type=shape)
    assert run(agent.run("go")).output == value
    check(agent.conversation)
    if provider in NATIVE:
        assert schema_sent(wiretap.bodies[0]) == NATIVE[provider][0]


TYPES = [
    list[int],
    list[City],
    int,
    str,
    bool,
    float,
    City | None,
    int | str,
    dict[str, int],
    list[dict[str, int]],
    City,
]


@pytest.mark.parametrize("provider", EVERYONE)
@pytest.mark.parametrize("shape", TYPES, ids=str)
@pytest.mark.parametrize("tools", [[], [add]], ids=["alone", "with tools"])
@LIVE
def test_a_model_that_is_held_to_the_schema_gives_any_type(
    provider: str, shape: Any, tools: Any, live: bool
) -> None:
    """The simulator fills in the schema that it is sent, and refuses what the provider would refuse."""
    wiretap = Wiretap()
    result = run(
        outcome(make_agent(provider, wiretap, tools=tools, output_type=shape), "What is it?", streamed=live)
    )
    assert TypeAdapter(shape).validate_python(result.output) == result.output
    assert len(wiretap.bodies) == 1 or tools or provider == "deepseek"  # it has no schemas: it may talk first


def test_a_map_is_restored_on_the_wire_that_has_none() -> None:
    wiretap = Wiretap(Reply((Text('{"value": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}'),)))
    assert run(make_agent("anthropic", wiretap, output_type=dict[str, int]).run("go")).output == {
        "a": 1,
        "b": 2,
    }


@pytest.mark.parametrize("text", ["just words", '"just words"', '{"value": "just words"}'])
def test_a_string_may_be_plain_text(text: str) -> None:
    assert (
        run(make_agent("openai-chat", Wiretap(Reply((Text(text),))), output_type=str).run("go")).output.strip(
            '"'
        )
        == "just words"
    )


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("stop", ["length", "refusal", "filtered"])
@LIVE
async def test_a_reply_that_ended_early_is_never_an_output_of_none(
    provider: str, stop: StopReason, live: bool
) -> None:
    agent = make_agent(
        provider, Wiretap(*[Reply((Text('{"value": [1, 2'),), stop)] * 5), output_type=list[int]
    )
    # Not every wire has every reason: where it has none, the answer is not valid.
    with pytest.raises(MissingOutput) as error:
        await outcome(agent, "go", streamed=live)
    assert error.value.result.output is None
    words = {"length": "max_tokens", "refusal": "refused", "filtered": "filter", "end": "3 attempts"}
    assert words[error.value.result.stop] in str(error.value)
    check(agent.conversation)


async def test_a_budget_that_is_used_up_is_never_an_output_of_none() -> None:
    agent = make_agent(
        "anthropic",
        Wiretap(calls, calls),
        tools=[add],
        output_type=City,
        limits=RunLimits(max_total_tokens=1),
    )
    with pytest.raises(MissingOutput, match="raise max_total_tokens") as error:
        await agent.run("go")
    assert error.value.result.stop == "budget"
    check(agent.conversation)


async def test_a_time_that_is_used_up_is_never_an_output_of_none() -> None:
    agent = make_agent(
        "anthropic", Wiretap(faults=["stall"]), output_type=City, limits=RunLimits(run_timeout=0.05)
    )
    with pytest.raises(MissingOutput, match="raise run_timeout") as error:
        await agent.run("go")
    assert error.value.result.stop == "timeout"
    check(agent.conversation)


@pytest.mark.parametrize("provider", EVERYONE)
@LIVE
def test_a_wrong_answer_is_sent_back(provider: str, live: bool) -> None:
    wiretap = Wiretap(answers('{"name": "Rome", "people": "many"}'), answers('{"name": "Rome", "people": 3}'))
    agent = make_agent(provider, wiretap, tools=[add], output_type=City)
    result = run(outcome(agent, "go", streamed=live))
    assert result.output == City(name="Rome", people=3)
    assert "people" in dumps_text(wiretap.bodies[1])
    assert len(wiretap.bodies) == 2
    check(agent.conversation)


@pytest.mark.parametrize("provider", EVERYONE)
@LIVE
def test_true_is_not_a_number(provider: str, live: bool) -> None:
    wiretap = Wiretap(answers('{"name": "Rome", "people": true}'), answers('{"name": "Rome", "people": 3}'))
    result = run(outcome(make_agent(provider, wiretap, output_type=City), "go", streamed=live))
    assert result.output == City(name="Rome", people=3)
    assert len(wiretap.bodies) == 2
    assert "true is not of type" in dumps_text(wiretap.bodies[1])


@pytest.mark.parametrize("provider", EVERYONE)
@pytest.mark.parametrize("shape", [City, SCHEMA])
@LIVE
def test_half_a_character_in_an_output_can_be_printed_and_encoded(
    provider: str, shape: Any, live: bool
) -> None:
    agent = make_agent(provider, Wiretap(answers('{"name": "Rom\\ud83d", "people": 3}')), output_type=shape)
    result = run(outcome(agent, "go", streamed=live))
    assert City.model_validate(result.output).name.encode() == b"Rom\\ud83d"
    assert [(repair.subject, repair.where) for repair in result.repairs if repair.where == "output"] == [
        ("text", "output")
    ]
    check(agent.conversation)


@pytest.mark.parametrize("provider", EVERYONE)
@pytest.mark.parametrize("text", ['{"name": "Rome", "people": "many"}', "{}"])
@LIVE
async def test_a_model_that_is_never_right_is_a_clear_error(provider: str, text: str, live: bool) -> None:
    wiretap = Wiretap(*[answers(text)] * 40)
    agent = make_agent(provider, wiretap, tools=[add], output_type=City)
    with pytest.raises(MissingOutput, match=r"(?s)in 3 attempts: .*people") as error:
        await outcome(agent, "go", streamed=live)
    assert (error.value.result.iterations, error.value.result.output) == (3, None)
    check(agent.conversation)
    assert (await make_agent(provider, conversation=agent.conversation).run("say on")).text == "on"
    assert len(wiretap.bodies) < 8


@pytest.mark.parametrize("provider", EVERYONE)
async def test_a_model_that_only_talks_is_a_clear_error(provider: str) -> None:
    def words(request: Request) -> Reply:
        return Reply((Text("I would rather talk."),), "end")

    wiretap = Wiretap(*[words] * 40)
    agent = make_agent(provider, wiretap, tools=[add], output_type=City)
    with pytest.raises(MissingOutput, match="in 3 attempts") as error:
        await agent.run("go")
    assert (error.value.result.text, error.value.result.stop) == ("I would rather talk.", "end")
    assert len(wiretap.bodies) == error.value.result.iterations == 3
    check(agent.conversation)


@pytest.mark.parametrize("provider", EVERYONE)
def test_an_output_that_never_came_is_not_passed_over(provider: str) -> None:
    """The turns are used up: the result says so, or there is an error; it never looks like a good end."""

    def words(request: Request) -> Reply:
        return Reply((Text("I would rather talk."),), "end")

    agent = make_agent(
        provider, Wiretap(*[words] * 40), tools=[add], output_type=City, limits=RunLimits(max_iterations=1)
    )

    async def talk() -> None:
        try:
            result = await agent.run("go")
        except MalformedReply:
            return
        assert result.output is None
        assert result.stop != "end"

    run(talk())
    check(agent.conversation)


def test_words_instead_of_the_final_tool_are_read_where_they_fit() -> None:
    def words(request: Request) -> Reply:
        return Reply((Text('Here it is:\n```json\n{"name": "Rome", "people": 3}\n```'),), "end")

    agent = make_agent("gemini", Wiretap(words, words, words), tools=[add], output_type=City)
    assert run(agent.run("go")).output == City(name="Rome", people=3)


def test_a_model_that_talked_is_made_to_call() -> None:
    def words(request: Request) -> Reply:
        return Reply((Text("Let me think about it."),), "end")

    wiretap = Wiretap(words, answers('{"name": "Rome", "people": 3}'))
    agent = make_agent("gemini", wiretap, tools=[add], output_type=City)
    assert run(agent.run("go")).output == City(name="Rome", people=3)
    assert "final_answer" in dumps_text(wiretap.bodies[1]["toolConfig"])


@pytest.mark.parametrize("provider", ["gemini", "ollama", "deepseek"])
def test_allowed_tools_do_not_hide_the_final_one(provider: str) -> None:
    wiretap = Wiretap(calls, answers('{"name": "Rome", "people": 3}'))
    config = ToolConfig(allow=frozenset({"add"}))
    agent = make_agent(provider, wiretap, tools=[add], output_type=City, config=config)
    result = run(agent.run("go"))
    assert result.output == City(name="Rome", people=3)
    assert [final_sent(body) for body in wiretap.bodies] == [True] * 2


@pytest.mark.parametrize("provider", EVERYONE)
def test_output_without_tools_that_are_switched_off(provider: str) -> None:
    wiretap = Wiretap(*[answers('{"name": "Rome", "people": 3}')] * 3)
    agent = make_agent(provider, wiretap, tools=[add], output_type=City, config=ToolConfig(enabled=False))
    result = run(agent.run("go"))
    assert result.output == City(name="Rome", people=3)
    assert "add" not in dumps_text(wiretap.bodies[0].get("tools", []))


def test_approvals_are_not_asked_for_the_final_answer() -> None:
    config = ToolConfig(ask=frozenset({"read", "write", "execute", "network"}))
    wiretap = Wiretap(answers('{"name": "Rome", "people": 3}'))
    result = run(make_agent("ollama", wiretap, tools=[add], output_type=City, config=config).run("go"))
    assert result.output == City(name="Rome", people=3)


def test_a_final_answer_beside_other_calls_runs_them_all() -> None:
    def both(request: Request) -> Reply:
        final = ToolCall("", "final_answer", {"name": "Rome", "people": 3})
        return Reply((ToolCall("", "add", {"a": 1, "b": 2}), final), "tools")

    agent = make_agent("ollama", Wiretap(both), tools=[add], output_type=City)
    result = run(agent.run("go"))
    assert result.output == City(name="Rome", people=3)
    assert kinds_of(agent.conversation) == [None, None]
    check(agent.conversation)


@pytest.mark.parametrize("provider", EVERYONE)
async def test_outputs_of_one_conversation_are_kept_apart(provider: str) -> None:
    wiretap = Wiretap(answers('{"name": "Rome", "people": 3}'), answers('{"name": "Oslo", "people": 1}'))
    agent = make_agent(provider, wiretap, tools=[add], output_type=City)
    first, other = await agent.run("go"), await agent.run("and?")
    assert (first.output, other.output) == (City(name="Rome", people=3), City(name="Oslo", people=1))
    check(agent.conversation)


def test_a_run_without_an_output_type_has_no_output() -> None:
    assert run(make_agent("anthropic").run("say 5")).output is None


async def test_an_output_type_that_cannot_be_is_an_error_and_the_agent_is_free() -> None:
    class Odd:
        pass

    with pytest.raises(UsageError, match="cannot be an output type: pydantic does not know it"):
        make_agent("anthropic", output_type=Odd)
    agent = make_agent("anthropic")
    with pytest.raises(UsageError, match="cannot be an output type"):
        change(agent, output_type=Odd)
    with pytest.raises(UsageError, match="cannot be an output type"):
        await agent.run("go", output_type=Odd)
    with pytest.raises(UsageError, match="cannot be an output type"):
        agent.stream("go", output_type=Odd)
    assert len(agent.conversation) == 0
    assert (await agent.run("say on")).text == "on"


async def test_an_output_type_may_be_completed_after_the_agent_was_made() -> None:
    class Tree(BaseModel):
        root: "Later"  # pyright: ignore[reportUndefinedVariable]  # noqa: F821

    agent = make_agent("anthropic", output_type=Tree)
    with pytest.raises(UsageError, match="cannot be an output type"):
        await agent.run("go")
    Tree.model_rebuild(_types_namespace={"Later": int})
    assert (await agent.run('say {"root": 3}')).output.root == 3


def test_a_tool_of_the_users_own_that_is_called_final_answer_is_refused() -> None:
    def final_answer(n: int) -> str:
        """The user's own."""
        raise AssertionError("it must not run")

    agent = make_agent("ollama", Wiretap(), tools=[final_answer], output_type=City)
    with pytest.raises(
        NameConflict, match="a tool is called 'final_answer', the name of the tool for structured output"
    ):
        run(agent.run('call final_answer {"n": 1}'))
    assert not agent.conversation


@pytest.mark.parametrize("provider", EVERYONE)
async def test_a_pause_for_approval_keeps_the_output(provider: str) -> None:
    @tool(effects="write")
    async def write() -> str:
        """Writes."""
        return "ok"

    def first(request: Request) -> Reply:
        return Reply((ToolCall("", "write", {}),), "tools")

    wiretap = Wiretap(first, answers('{"name": "Rome", "people": 3}'))
    agent = make_agent(
        provider, wiretap, tools=[write], output_type=City, config=ToolConfig(ask=frozenset({"write"}))
    )
    paused = await agent.run("go")
    assert paused.stop == "approval"
    assert paused.output is None
    assert (await agent.resume({paused.requests[0].id: "yes"})).output == City(name="Rome", people=3)
    check(agent.conversation)
