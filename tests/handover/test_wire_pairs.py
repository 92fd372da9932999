"""A conversation goes from one wire to another in the middle of a tool loop, and back.

In it: thinking, parallel calls, an image in a result, a failed call, an interrupted call. Every ordered pair of the five wires
(and of a Chat vendor that shows its reasoning), at five moments, streamed and whole. Laws: nobody refuses a request; whoever
is asked is told every text, call and result; opaque state goes back to the one who made it, unchanged, and to nobody else.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Any

import msgspec
import pytest

from toolglot.events import RunResult
from toolglot.jsontext import loads_object
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Media, Message, Reply, Text, Thinking, ToolCall
from toolglot.simulator.core import Script
from toolglot.tools.tool import Tool, tool

from .harness import (
    WIRE_PROFILES,
    Doc,
    RecordingTransport,
    SentRequest,
    check_every_profile,
    drain,
    list_unpaired,
    make_engine,
    make_transport,
    needs_referee,
    referee_errors,
    run_agent,
)

pytestmark = pytest.mark.untraced

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
# what Google lets others say in place of a signature
STAND_IN = base64.b64encode(b"skip_thought_signature_validator").decode()
SIX = (*WIRE_PROFILES, "deepseek")
MOMENTS = ("approval", "saved", "fallback", "answered", "cancelled")


def thought(who: str, *calls: ToolCall, text: str = "") -> Reply:
    said = (Text(text),) if text else ()
    return Reply((Thinking(f"{who} thinks."), *said, *calls), "tools" if calls else "end")


def script(moment: str) -> Script:
    """Turns of all models, one after another."""
    last = {"approval": "deploy", "saved": "deploy", "cancelled": "hang"}.get(moment, "add")
    return Script(
        (
            thought("A", ToolCall("", "hang", {"name": "one"}), ToolCall("", "add", {"a": 1, "b": 1}), text="I begin."),
            thought(
                "A again",
                ToolCall("", "chart", {"of": "sales"}),
                ToolCall("", "broken", {}),
                ToolCall("", "add", {"a": 2, "b": 3}),
                ToolCall("", last, {"name": "two"} if last != "add" else {"a": 4, "b": 4}),
                text="I look.",
            ),
            thought("B", ToolCall("", "add", {"a": 5, "b": 6}), ToolCall("", "chart", {"of": "costs"}), text="I go on."),
            thought("B again", text="B is done."),
            thought("C", ToolCall("", "add", {"a": 7, "b": 8}), text="I take over."),
            thought("C again", text="C is done."),
            thought("A at last", ToolCall("", "add", {"a": 9, "b": 10})),
            thought("A at the end", text="A is done."),
            *(thought(f"turn {number}", text=f"Turn {number} is done.") for number in range(8, 12)),
        )
    )


class Scene:
    """A conversation and those who hold it."""

    def __init__(self, first: str, moment: str, *, live: bool, fallback: str = "") -> None:
        faults = ["", "", "overloaded"] if moment == "fallback" else []
        self.transport: RecordingTransport = make_transport(script(moment), faults=faults)
        self.live, self.started, self.ran = live, asyncio.Event(), list[str]()
        self.options: dict[str, Any] = {"tools": self.tools(), "system": "You are careful."}
        others = [make_engine(fallback, self.transport)] if fallback else []
        self.agent = Orchestrator(make_engine(first, self.transport), fallbacks=others, **self.options)
        self.transport.watched = self.agent.conversation

    def tools(self) -> list[Tool]:
        @tool
        async def hang(name: str) -> str:
            """Never comes back."""
            self.ran.append(f"hang {name}")
            for _ in range(50):  # the calls beside it have come back by then
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

    async def interrupted(self, prompt: str) -> None:
        """A run that is cancelled while a tool runs."""
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
        """As another process would."""
        self.agent = Orchestrator.load(data, make_engine(profile, self.transport), **self.options)
        self.transport.watched = self.agent.conversation

    def switch(self, profile: str) -> None:
        self.agent.switch(make_engine(profile, self.transport))


async def handed_over(scene: Scene, second: str, moment: str) -> None:
    """A is interrupted, begins anew, and B goes on in the middle of A's turn."""
    await scene.interrupted("Start.")
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
            await scene.interrupted("Now properly.")
            scene.switch(second)
            result = await scene.run("Go on.")
        case _:
            result = await scene.run("Now properly.")
            scene.switch(second)
            result = await scene.run("Go on.")
    assert result.stop == "end"


class Told(msgspec.Struct):
    sent: list[SentRequest]
    conversation: list[Message]
    ran: list[str]
    elsewhere: list[str]


@lru_cache(maxsize=1)  # the tests of a scene come one after another
def there_and_back(path: tuple[str, ...], moment: str, live: bool) -> Told:
    """A conversation along a path of profiles."""

    async def play() -> Told:
        first, second, *others = path
        scene = Scene(first, moment, live=live, fallback=second if moment == "fallback" else "")
        await handed_over(scene, second, moment)
        for number, profile in enumerate(others):
            scene.switch(profile)
            assert (await scene.run(f"Your turn, number {number}.")).stop == "end"
        conversation = scene.agent.conversation
        elsewhere = [] if live else await check_every_profile(conversation)
        return Told(scene.transport.sent, list(conversation), scene.ran, elsewhere)

    return asyncio.run(play())


# ---- what a request holds


def state_in(sent: SentRequest) -> list[tuple[str, str]]:
    """The opaque state in a body, in order."""
    body = sent.body
    match sent.profile.wire:
        case "anthropic-messages":
            blocks = [block for m in body["messages"] if isinstance(m["content"], list) for block in m["content"]]
            return [(block["thinking"], block["signature"]) for block in blocks if block["type"] == "thinking"]
        case "openai-responses":
            items = [item for item in body["input"] if item.get("type") == "reasoning"]
            return [(_summary(item), item["encrypted_content"]) for item in items]
        case "gemini":
            parts = [part for content in body["contents"] for part in content["parts"] if "functionCall" in part]
            signed = [(part["functionCall"]["name"], part.get("thoughtSignature", "")) for part in parts]
            return [pair for pair in signed if pair[1] not in ("", STAND_IN)]
        case "ollama-chat":
            return [("", m["thinking"]) for m in body["messages"] if m.get("thinking")]
        case _:
            keys = ("reasoning_content", "reasoning", "reasoning_text")
            return [("", m[key]) for m in body["messages"] for key in keys if m.get(key, "").strip()]


def _summary(item: Doc) -> str:
    return "".join(part["text"] for part in item["summary"])


def state_of(sent: SentRequest) -> list[tuple[str, str]]:
    """The opaque state that the one who is asked has made itself."""
    profile, found = sent.profile, list[tuple[str, str]]()
    own = [
        m
        for m in sent.conversation
        if m.origin is not None and (m.origin.profile, m.origin.model) == (profile.id, profile.model)
    ]
    for block in (block for message in own for block in message.blocks):
        state: Doc = getattr(block, "opaque", None) or {}
        if profile.wire == "gemini":
            found += (
                [(block.name, state["thoughtSignature"])] if isinstance(block, ToolCall) and "thoughtSignature" in state else []
            )
        elif isinstance(block, Thinking):
            key = {"anthropic-messages": "signature", "openai-responses": "encrypted_content"}.get(profile.wire, "")
            found.append((block.text, state[key]) if key else ("", block.text))
    return found


def untold(sent: SentRequest) -> list[str]:
    """What the conversation holds and the request does not."""
    told, said = sent.history, sent.conversation
    calls = [(call.name, call.arguments) for message in told for call in message.calls]
    wanted = [(call.name, call.arguments) for message in said for call in message.calls]
    wrong = [] if calls == wanted else [f"calls: {calls} and not {wanted}"]
    ids = [call.id for message in told for call in message.calls]
    wrong += [] if len({*ids}) == len(ids) else [f"ids: {ids}"]
    results = [result for message in told for result in message.results]
    expected = [result for message in said for result in message.results]
    if [result.call_id for result in results] != ids or len(results) != len(expected):
        wrong.append(f"results of {[result.call_id for result in results]} and not of {ids}")
    else:
        wrong += [
            f"result {one.text!r}: {other.text!r}"
            for one, other in zip(expected, results, strict=True)
            if one.text not in other.text
        ]
    at, everything = 0, "\n".join(message.text for message in told)
    for text in (message.text for message in said if message.text):
        at = everything.find(text, at)
        if at < 0:
            return [*wrong, f"text {text!r}"]
    if "image" in sent.profile.media and images(told) != images(said):
        wrong.append(f"images: {images(told)} and not {images(said)}")
    return wrong


def images(messages: Any) -> int:
    blocks = [block for message in messages for block in message.blocks]
    inside = [part for message in messages for result in message.results for part in result.content]
    return sum(isinstance(block, Media) and block.data == base64.b64encode(PNG).decode() for block in [*blocks, *inside])


def bound_in(wire: str, body: Doc, *, answer: bool) -> list[Any]:
    """What a provider wants back as it made it: the items of an answer, or of a history, that carry state or make a call."""
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
            messages = [body["choices"][0]["message"] if chat else body["message"]] if answer else body["messages"]
            thoughts = [m[key] for m in messages for key in ("reasoning_content", "reasoning", "thinking") if m.get(key)]
            return [*thoughts, *(call for m in messages for call in m.get("tool_calls", []))]


# ---- the laws

Path = tuple[str, ...]
PAIRS = [
    pytest.param(((first, second, first), moment, live), id=f"{first}-{second}-{moment}-{'streamed' if live else 'whole'}")
    for first, second in permutations(SIX, 2)
    for moment in MOMENTS
    for live in (False, True)
]
# each wire once in every place, with its neighbours and with those after them
WAYS = [
    (WIRE_PROFILES[at], WIRE_PROFILES[(at + step) % 5], WIRE_PROFILES[(at + 2 * step) % 5], WIRE_PROFILES[at])
    for at in range(5)
    for step in (1, 2)
]
TRIPLES = [
    pytest.param((way, moment, live), id=f"{'-'.join(way)}-{moment}-{'streamed' if live else 'whole'}")
    for way in WAYS
    for moment, live in (("approval", True), ("fallback", False), ("cancelled", True))
]
# vendors that speak one wire and do not share their state, and those with rules of their own
KIN = [
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


def refused_or_led_astray(path: Path, moment: str, found: Told) -> list[Any]:
    failed = [at for at, one in enumerate(found.sent) if one.status != 200]
    asked = [one.profile.id for one in found.sent]
    went = [asked[0], *(new for old, new in pairwise(asked) if new != old)]
    return [] if (failed, went) == ([2] if moment == "fallback" else [], list(path)) else [failed, went]


def not_told(path: Path, moment: str, found: Told) -> list[Any]:
    return [(at, wrong) for at, one in enumerate(found.sent) if (wrong := untold(one))]


def state_astray(path: Path, moment: str, found: Told) -> list[Any]:
    """State goes back to its maker and to nobody else; some show no reasoning at all."""
    is_shown = path[-1] not in ("openai-chat", "azure-chat", "mistral")
    wrong = [(at, state_in(one), state_of(one)) for at, one in enumerate(found.sent) if state_in(one) != state_of(one)]
    return [*wrong, *([] if bool(state_in(found.sent[-1])) is is_shown else ["the last"])]


def not_valid_everywhere(path: Path, moment: str, found: Told) -> list[Any]:
    return [*list_unpaired(found.conversation), *found.elsewhere]


def ran_twice(path: Path, moment: str, found: Told) -> list[Any]:
    return [name for name, times in Counter(found.ran).items() if times > 1]


def interrupted_untold(path: Path, moment: str, found: Told) -> list[Any]:
    kinds = [[result.error_kind for result in message.results] for message in found.conversation if message.results]
    last = "interrupted" if moment == "cancelled" else None
    return [] if kinds[:2] == [["interrupted", None], [None, "execution", None, last]] else [kinds]


def came_back_otherwise(path: Path, moment: str, found: Told) -> list[Any]:
    """What a provider made comes back as it was; looked at where answers are whole."""
    made: dict[str, list[Any]] = {}
    wrong: list[Any] = []
    for one in found.sent:
        wire, profile = one.profile.wire, one.profile.id
        held = bound_in(wire, one.body, answer=False)
        wrong += [item for item in made.get(profile, []) if item not in held]
        if one.status == 200:
            made.setdefault(profile, []).extend(bound_in(wire, loads_object(bytes(one.answer)), answer=True))
    return wrong if made[path[0]] else ["nothing was made"]


LAWS = (refused_or_led_astray, not_told, state_astray, not_valid_everywhere, ran_twice, interrupted_untold)


@pytest.fixture(scope="module", params=[*PAIRS, *TRIPLES, *KIN])
def played_scene(request: pytest.FixtureRequest) -> tuple[Path, str, bool, Told]:
    path, moment, live = request.param
    return path, moment, live, there_and_back(path, moment, live)


def test_a_hand_over_keeps_all_laws(played_scene: tuple[Path, str, bool, Told]) -> None:
    path, moment, live, found = played_scene
    laws = LAWS if live else (*LAWS, came_back_otherwise)
    assert {law.__name__: wrong for law in laws if (wrong := law(path, moment, found))} == {}


@needs_referee
def test_the_referee_accepts_every_request(played_scene: tuple[Path, str, bool, Told]) -> None:
    assert [said for one in played_scene[3].sent for said in referee_errors(one)] == []


def test_a_picture_that_the_next_model_cannot_see_is_a_loss() -> None:
    async def play() -> list[str]:
        scene = Scene("anthropic", "answered", live=False)
        await scene.interrupted("Start.")
        assert (await scene.run("Now properly.")).losses == ()
        scene.switch("deepseek")
        return [loss.subject for loss in (await scene.run("Go on.")).losses]

    assert any("image" in what for what in asyncio.run(play()))


# ---- the judges can say no

MANGLED: dict[str, tuple[bytes, bytes]] = {
    "a text": (b'"text":"I go on."', b'"text":"I go."'),
    "a call": (b'"input":{"of":"costs"}', b'"input":{"of":"cats"}'),
    "a result": (b'"content":"11"', b'"content":"12"'),
    "an id": (b'"tool_use_id":"toolu_', b'"tool_use_id":"tool_'),
    "a picture": (b'"data":"iVBOR', b'"data":"iVBXX'),
}


@pytest.mark.parametrize("what", MANGLED)
def test_the_judge_sees_what_is_missing(what: str) -> None:
    sent = there_and_back(("anthropic", "ollama", "anthropic"), "approval", False).sent[-1]
    assert untold(sent) == []
    assert untold(mangled(sent, *MANGLED[what])) != []


def test_the_judge_sees_state_that_is_missing() -> None:
    sent = there_and_back(("anthropic", "ollama", "anthropic"), "approval", False).sent[-1]
    assert state_in(mangled(sent, b'"signature":"', b'"signature":"x')) != state_of(sent)


SPOILT: dict[str, Callable[[Told], object]] = {
    "refused_or_led_astray": lambda found: found.sent.pop(0),
    "not_told": lambda found: found.sent.append(mangled(found.sent.pop(), *MANGLED["a result"])),
    "state_astray": lambda found: found.sent.append(mangled(found.sent.pop(), b'"signature":"', b'"signature":"x')),
    "not_valid_everywhere": lambda found: found.conversation.pop(2),
    "ran_twice": lambda found: found.ran.append(found.ran[0]),
    "interrupted_untold": lambda found: found.conversation.clear(),
    "came_back_otherwise": lambda found: found.sent.append(mangled(found.sent.pop(), b'"input":{"a":2', b'"input":{"a":3')),
}


def test_each_law_can_say_no() -> None:
    assert [*SPOILT] == [law.__name__ for law in (*LAWS, came_back_otherwise)]
    path, moment = ("anthropic", "ollama", "anthropic"), "fallback"
    for law in (*LAWS, came_back_otherwise):
        found = there_and_back(path, moment, False)
        spoilt = Told([*found.sent], [*found.conversation], [*found.ran], [*found.elsewhere])
        assert law(path, moment, spoilt) == []
        SPOILT[law.__name__](spoilt)
        assert law(path, moment, spoilt) != [], law.__name__


def mangled(sent: SentRequest, old: bytes, new: bytes) -> SentRequest:
    body = sent.request.body
    assert old in body
    return msgspec.structs.replace(sent, request=msgspec.structs.replace(sent.request, body=body.replace(old, new, 1)))
