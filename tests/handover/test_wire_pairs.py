"""A conversation moves from one wire to another in the middle of a tool loop, and back.

It has thinking, parallel calls, an image in a result, a failed call and an interrupted call. Every ordered
pair of the five wires (and of a Chat vendor that shows its reasoning), at five moments, streamed and whole.
Laws: no request is refused; every request has all texts, calls and results; opaque state goes back to its
maker, unchanged, and to nobody else."""

import asyncio
import base64
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Any

import msgspec
import pytest
from tests.loop.agents import check

from toolglot.common.jsontext import loads_object
from toolglot.loop.agent.agent import Agent
from toolglot.simulator.core import Script
from toolglot.tools.tool import Tool, tool
from toolglot.values.events import RunResult
from toolglot.values.messages import Media, Message, Reply, Text, Thinking, ToolCall

from .harness import (
    WIRE_PROFILES,
    Doc,
    RecordingTransport,
    SentRequest,
    drain,
    make_engine,
    make_transport,
    referee_errors,
    run_agent,
)

pytestmark = pytest.mark.untraced

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# Google documents this for calls that Gemini did not make
DUMMY_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
PROFILES_WITH_REASONING = (*WIRE_PROFILES, "deepseek")
MOMENTS = ("approval", "saved", "fallback", "answered", "cancelled")


def make_thought(who: str, *calls: ToolCall, text: str = "") -> Reply:
    texts = (Text(text),) if text else ()
    return Reply((Thinking(f"{who} thinks."), *texts, *calls), "tools" if calls else "end")


def script(moment: str) -> Script:
    """The turns of all models, in order."""
    last = {"approval": "deploy", "saved": "deploy", "cancelled": "hang"}.get(moment, "add")
    return Script(
        (
            make_thought(
                "A",
                ToolCall("", "hang", {"name": "one"}),
                ToolCall("", "add", {"a": 1, "b": 1}),
                text="I begin.",
            ),
            make_thought(
                "A again",
                ToolCall("", "chart", {"of": "sales"}),
                ToolCall("", "broken", {}),
                ToolCall("", "add", {"a": 2, "b": 3}),
                ToolCall("", last, {"name": "two"} if last != "add" else {"a": 4, "b": 4}),
                text="I look.",
            ),
            make_thought(
                "B",
                ToolCall("", "add", {"a": 5, "b": 6}),
                ToolCall("", "chart", {"of": "costs"}),
                text="I go on.",
            ),
            make_thought("B again", text="B is done."),
            make_thought("C", ToolCall("", "add", {"a": 7, "b": 8}), text="I take over."),
            make_thought("C again", text="C is done."),
            make_thought("A at last", ToolCall("", "add", {"a": 9, "b": 10})),
            make_thought("A at the end", text="A is done."),
            *(make_thought(f"turn {number}", text=f"Turn {number} is done.") for number in range(8, 12)),
        )
    )


class Scene:
    """A conversation, its tools, and the agent that holds it."""

    def __init__(self, first: str, moment: str, *, live: bool, fallback: str = "") -> None:
        faults = ["", "", "overloaded"] if moment == "fallback" else []
        self.transport: RecordingTransport = make_transport(script(moment), faults=faults)
        self.live, self.started, self.ran = live, asyncio.Event(), list[str]()
        self.options: dict[str, Any] = {"tools": self.tools(), "system": "You are careful."}
        others = [make_engine(fallback, self.transport)] if fallback else []
        self.agent = Agent(make_engine(first, self.transport), fallbacks=others, **self.options)
        self.transport.watched = self.agent.conversation

    def tools(self) -> list[Tool]:
        @tool
        async def hang(name: str) -> str:
            """Never comes back."""
            self.ran.append(f"hang {name}")
            for _ in range(50):  # the parallel calls are finished by then
                await asyncio.sleep(0)
            self.started.set()
            await asyncio.Event().wait()
            return name

        @tool
        async def chart(of: str) -> Any:
            """Draws a chart."""
            self.ran.append(f"chart {of}")
            return [f"a chart of {of}", PNG]

        @tool
        async def broken() -> str:
            """Fails."""
            self.ran.append("broken")
            raise ValueError("out of order")

        @tool
        async def add(a: int, b: int) -> int:
            """Adds two numbers."""
            self.ran.append(f"add {a} {b}")
            return a + b

        @tool(approval=True)
        async def deploy(name: str) -> str:
            """Asks first."""
            self.ran.append(f"deploy {name}")
            return f"deployed {name}"

        return [hang, chart, broken, add, deploy]

    async def run(self, prompt: str) -> RunResult:
        return await run_agent(self.agent, prompt, live=self.live)

    async def interrupt(self, prompt: str) -> None:
        """Cancel a run while a tool is running."""
        self.started.clear()
        run = asyncio.create_task(self.run(prompt))
        await self.started.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    async def resume(self, decision: Any) -> RunResult:
        pending = self.agent.conversation[-1].calls[-1].id
        if self.live:
            return (await drain(self.agent.resume_stream({pending: decision})))[1]
        return await self.agent.resume({pending: decision})

    def load(self, data: bytes, profile: str) -> None:
        """Continue as another process would."""
        self.agent = Agent.load(data, make_engine(profile, self.transport), **self.options)
        self.transport.watched = self.agent.conversation

    def switch(self, profile: str) -> None:
        self.agent.switch(make_engine(profile, self.transport))


async def hand_over(scene: Scene, second: str, moment: str) -> None:
    """A is interrupted and starts again; B continues in the middle of A's turn."""
    await scene.interrupt("Start.")
    match moment:
        case "approval":
            result = await scene.run("Now properly.")
            assert result.stop == "approval"
            scene.switch(second)
            result = await scene.resume("yes")
        case "saved":
            result = await scene.run("Now properly.")
            assert result.stop == "approval"
            scene.load(scene.agent.save(), second)
            result = await scene.resume("yes")
        case "fallback":
            result = await scene.run("Now properly.")
        case "cancelled":
            await scene.interrupt("Now properly.")
            scene.switch(second)
            result = await scene.run("Go on.")
        case _:
            result = await scene.run("Now properly.")
            scene.switch(second)
            result = await scene.run("Go on.")
    assert result.stop == "end"


class Playback(msgspec.Struct):
    sent: list[SentRequest]
    conversation: list[Message]
    ran: list[str]


@lru_cache(maxsize=1)  # the tests of a scene run in sequence
def play_path(path: tuple[str, ...], moment: str, live: bool) -> Playback:
    """Play a conversation along a path of profiles."""

    async def play() -> Playback:
        first, second, *others = path
        scene = Scene(first, moment, live=live, fallback=second if moment == "fallback" else "")
        await hand_over(scene, second, moment)
        for number, profile in enumerate(others):
            scene.switch(profile)
            assert (await scene.run(f"Your turn, number {number}.")).stop == "end"
        return Playback(scene.transport.sent, list(scene.agent.conversation), scene.ran)

    return asyncio.run(play())


# ---- what is in a request


def state_of(sent: SentRequest) -> list[tuple[str, str]]:
    """Return the opaque state in a body, in order."""
    body = sent.body
    match sent.profile.wire:
        case "anthropic-messages":
            blocks = [
                block for m in body["messages"] if isinstance(m["content"], list) for block in m["content"]
            ]
            return [
                (block["thinking"], block["signature"]) for block in blocks if block["type"] == "thinking"
            ]
        case "openai-responses":
            items = [item for item in body["input"] if item.get("type") == "reasoning"]
            return [(_summary(item), item["encrypted_content"]) for item in items]
        case "gemini":
            parts = [
                part for content in body["contents"] for part in content["parts"] if "functionCall" in part
            ]
            signed = [(part["functionCall"]["name"], part.get("thoughtSignature", "")) for part in parts]
            return [pair for pair in signed if pair[1] not in ("", DUMMY_SIGNATURE)]
        case "ollama-chat":
            return [("", m["thinking"]) for m in body["messages"] if m.get("thinking")]
        case _:
            keys = ("reasoning_content", "reasoning", "reasoning_text")
            return [("", m[key]) for m in body["messages"] for key in keys if m.get(key, "").strip()]


def _summary(item: Doc) -> str:
    return "".join(part["text"] for part in item["summary"])


def own_state(sent: SentRequest) -> list[tuple[str, str]]:
    """Return the opaque state that the target itself made."""
    profile, playback = sent.profile, list[tuple[str, str]]()
    messages = [
        m
        for m in sent.conversation
        if m.origin is not None and (m.origin.profile, m.origin.model) == (profile.id, profile.model)
    ]
    for block in (block for message in messages for block in message.blocks):
        state: Doc = getattr(block, "opaque", None) or {}
        if profile.wire == "gemini":
            playback += (
                [(block.name, state["thoughtSignature"])]
                if isinstance(block, ToolCall) and "thoughtSignature" in state
                else []
            )
        elif isinstance(block, Thinking):
            key = {"anthropic-messages": "signature", "openai-responses": "encrypted_content"}.get(
                profile.wire, ""
            )
            playback.append((block.text, state[key]) if key else ("", block.text))
    return playback


def missing_content(sent: SentRequest) -> list[str]:
    """Return what the conversation has and the request lacks."""
    history, conversation = sent.history, sent.conversation
    calls = [(call.name, call.arguments) for message in history for call in message.calls]
    wanted = [(call.name, call.arguments) for message in conversation for call in message.calls]
    wrong = [] if calls == wanted else [f"calls: {calls} and not {wanted}"]
    ids = [call.id for message in history for call in message.calls]
    wrong += [] if len({*ids}) == len(ids) else [f"ids: {ids}"]
    results = [result for message in history for result in message.results]
    expected = [result for message in conversation for result in message.results]
    if [result.call_id for result in results] != ids or len(results) != len(expected):
        wrong.append(f"results of {[result.call_id for result in results]} and not of {ids}")
    else:
        wrong += [
            f"result {kept.text!r}: {other.text!r}"
            for kept, other in zip(expected, results, strict=True)
            if kept.text not in other.text
        ]
    at, everything = 0, "\n".join(message.text for message in history)
    for text in (message.text for message in conversation if message.text):
        at = everything.find(text, at)
        if at < 0:
            return [*wrong, f"text {text!r}"]
    if "image" in sent.profile.media and images(history) != images(conversation):
        wrong.append(f"images: {images(history)} and not {images(conversation)}")
    return wrong


def images(messages: Any) -> int:
    blocks = [block for message in messages for block in message.blocks]
    inside = [part for message in messages for result in message.results for part in result.content]
    return sum(
        isinstance(block, Media) and block.data == base64.b64encode(PNG).decode()
        for block in [*blocks, *inside]
    )


def bound_items(wire: str, body: Doc, *, answer: bool) -> list[Any]:
    """Return the items of a reply, or of a history, that must come back unchanged: those with state, and
    calls.
    """
    match wire:
        case "anthropic-messages":
            messages = [body] if answer else body["messages"]
            blocks = [block for m in messages if isinstance(m["content"], list) for block in m["content"]]
            return [block for block in blocks if block["type"] in ("thinking", "tool_use")]
        case "openai-responses":
            return [item for item in body["output" if answer else "input"] if "id" in item]
        case "gemini":
            contents = [body["candidates"][0]["content"]] if answer else body["contents"]
            return [part for content in contents for part in content["parts"] if "functionCall" in part]
        case _:
            chat = wire == "openai-chat"
            messages = (
                [body["choices"][0]["message"] if chat else body["message"]] if answer else body["messages"]
            )
            thoughts = [
                m[key]
                for m in messages
                for key in ("reasoning_content", "reasoning", "thinking")
                if m.get(key)
            ]
            return [*thoughts, *(call for m in messages for call in m.get("tool_calls", []))]


# ---- the laws

Path = tuple[str, ...]
PAIRS = [
    pytest.param(
        ((first, second, first), moment, live),
        id=f"{first}-{second}-{moment}-{'streamed' if live else 'whole'}",
    )
    for first, second in permutations(PROFILES_WITH_REASONING, 2)
    for moment in MOMENTS
    for live in (False, True)
]
# each wire once in every position, with two orders of the others
PATHS = [
    (WIRE_PROFILES[at], WIRE_PROFILES[(at + step) % 5], WIRE_PROFILES[(at + 2 * step) % 5], WIRE_PROFILES[at])
    for at in range(5)
    for step in (1, 2)
]
TRIPLES = [
    pytest.param((way, moment, live), id=f"{'-'.join(way)}-{moment}-{'streamed' if live else 'whole'}")
    for way in PATHS
    for moment, live in (("approval", True), ("fallback", False), ("cancelled", True))
]
# vendors of one wire that do not share their state, and those with special rules
SAME_WIRE = [
    pytest.param((path, moment, live), id=f"{'-'.join(path)}-{moment}-{'streamed' if live else 'whole'}")
    for path in (
        ("gemini", "vertex", "gemini"),
        ("openai-responses", "azure-responses", "openai-responses"),
        ("deepseek", "openrouter", "deepseek"),
        ("azure-chat", "groq", "azure-chat", "vllm"),
        ("openai-chat", "mistral", "anthropic", "mistral"),
        ("xai", "copilot", "xai", "copilot"),
    )
    for moment, live in (("approval", False), ("cancelled", True))
]


def wrong_requests(path: Path, moment: str, playback: Playback) -> list[Any]:
    failed = [index for index, sent in enumerate(playback.sent) if sent.status != 200]
    targets = [sent.profile.id for sent in playback.sent]
    visited = [targets[0], *(new for old, new in pairwise(targets) if new != old)]
    return [] if (failed, visited) == ([2] if moment == "fallback" else [], list(path)) else [failed, visited]


def incomplete_requests(path: Path, moment: str, playback: Playback) -> list[Any]:
    return [
        (index, missing) for index, sent in enumerate(playback.sent) if (missing := missing_content(sent))
    ]


def misplaced_state(path: Path, moment: str, playback: Playback) -> list[Any]:
    """State goes back to its maker and to nobody else; some models show no reasoning."""
    is_shown = path[-1] not in ("openai-chat", "azure-chat", "mistral")
    pairs = [(index, state_of(sent), own_state(sent)) for index, sent in enumerate(playback.sent)]
    wrong: list[Any] = [(index, actual, expected) for index, actual, expected in pairs if actual != expected]
    return [*wrong, *([] if bool(state_of(playback.sent[-1])) is is_shown else ["the last"])]


def invalid_elsewhere(path: Path, moment: str, playback: Playback) -> list[Any]:
    try:
        check(playback.conversation)
    except AssertionError as error:
        return [error]
    return []


def repeated_calls(path: Path, moment: str, playback: Playback) -> list[Any]:
    return [name for name, times in Counter(playback.ran).items() if times > 1]


def missing_interruptions(path: Path, moment: str, playback: Playback) -> list[Any]:
    kinds = [
        [result.error_kind for result in message.results]
        for message in playback.conversation
        if message.results
    ]
    last = "interrupted" if moment == "cancelled" else None
    return [] if kinds[:2] == [["interrupted", None], [None, "execution", None, last]] else [kinds]


def altered_items(path: Path, moment: str, playback: Playback) -> list[Any]:
    """Items come back as the provider made them; checked on replies that are not streamed."""
    made_by: dict[str, list[Any]] = {}
    altered: list[Any] = []
    for sent in playback.sent:
        wire, profile = sent.profile.wire, sent.profile.id
        present = bound_items(wire, sent.body, answer=False)
        altered += [item for item in made_by.get(profile, []) if item not in present]
        if sent.status == 200:
            made_by.setdefault(profile, []).extend(
                bound_items(wire, loads_object(bytes(sent.answer)), answer=True)
            )
    return altered if made_by[path[0]] else ["no items"]


LAWS = (
    wrong_requests,
    incomplete_requests,
    misplaced_state,
    invalid_elsewhere,
    repeated_calls,
    missing_interruptions,
)


@pytest.fixture(scope="module", params=[*PAIRS, *TRIPLES, *SAME_WIRE])
def played_scene(request: pytest.FixtureRequest) -> tuple[Path, str, bool, Playback]:
    path, moment, live = request.param
    return path, moment, live, play_path(path, moment, live)


def test_handovers_keep_all_laws(played_scene: tuple[Path, str, bool, Playback]) -> None:
    path, moment, live, playback = played_scene
    laws = LAWS if live else (*LAWS, altered_items)
    assert {law.__name__: wrong for law in laws if (wrong := law(path, moment, playback))} == {}


def test_the_referee_accepts_every_request(played_scene: tuple[Path, str, bool, Playback]) -> None:
    assert [error for sent in played_scene[3].sent for error in referee_errors(sent)] == []


async def test_an_image_that_the_next_model_cannot_see_is_a_loss() -> None:
    scene = Scene("anthropic", "answered", live=False)
    await scene.interrupt("Start.")
    assert (await scene.run("Now properly.")).losses == ()
    scene.switch("deepseek")
    assert any(
        "image" in subject for subject in [loss.subject for loss in (await scene.run("Go on.")).losses]
    )


# ---- the laws can fail

CHANGES: dict[str, tuple[bytes, bytes]] = {
    "a text": (b'"text":"I go on."', b'"text":"I go."'),
    "a call": (b'"input":{"of":"costs"}', b'"input":{"of":"cats"}'),
    "a result": (b'"content":"11"', b'"content":"12"'),
    "an id": (b'"tool_use_id":"toolu_', b'"tool_use_id":"tool_'),
    "a picture": (b'"data":"iVBOR', b'"data":"iVBXX'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_missing_content_is_detected(change: str) -> None:
    sent = play_path(("anthropic", "ollama", "anthropic"), "approval", False).sent[-1]
    assert missing_content(sent) == []
    assert missing_content(mangle(sent, *CHANGES[change])) != []


def test_altered_state_is_detected() -> None:
    sent = play_path(("anthropic", "ollama", "anthropic"), "approval", False).sent[-1]
    assert state_of(mangle(sent, b'"signature":"', b'"signature":"x')) != own_state(sent)


VIOLATIONS: dict[str, Callable[[Playback], object]] = {
    "wrong_requests": lambda playback: playback.sent.pop(0),
    "incomplete_requests": lambda playback: playback.sent.append(
        mangle(playback.sent.pop(), *CHANGES["a result"])
    ),
    "misplaced_state": lambda playback: playback.sent.append(
        mangle(playback.sent.pop(), b'"signature":"', b'"signature":"x')
    ),
    "invalid_elsewhere": lambda playback: playback.conversation.pop(2),
    "repeated_calls": lambda playback: playback.ran.append(playback.ran[0]),
    "missing_interruptions": lambda playback: playback.conversation.clear(),
    "altered_items": lambda playback: playback.sent.append(
        mangle(playback.sent.pop(), b'"input":{"a":2', b'"input":{"a":3')
    ),
}


def test_each_law_can_fail() -> None:
    assert [*VIOLATIONS] == [law.__name__ for law in (*LAWS, altered_items)]
    path, moment = ("anthropic", "ollama", "anthropic"), "fallback"
    for law in (*LAWS, altered_items):
        playback = play_path(path, moment, False)
        damaged = Playback([*playback.sent], [*playback.conversation], [*playback.ran])
        assert law(path, moment, damaged) == []
        VIOLATIONS[law.__name__](damaged)
        assert law(path, moment, damaged) != [], law.__name__


def mangle(sent: SentRequest, old: bytes, new: bytes) -> SentRequest:
    body = sent.request.body
    assert old in body
    return msgspec.structs.replace(
        sent, request=msgspec.structs.replace(sent.request, body=body.replace(old, new, 1))
    )
