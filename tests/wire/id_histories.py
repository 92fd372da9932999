"""Random histories whose ids repeat or are illegal, with a token in every call and result; a judge that reads
tokens in bodies.

The judge knows how each API pairs results with calls, not the code under test.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Conversation,
    Message,
    Origin,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    load,
    save,
    user,
)
from toolglot.values.request import Request
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.prefix import PrefixEncoder

Doc = dict[str, Any]
TARGETS = tuple(
    resolve_profile(provider, model)
    for provider, model in {
        "openai-chat": "gpt-4o",
        "openai-responses": "gpt-5.1",
        "anthropic": "claude-opus-4-8",
        "gemini": "gemini-3-pro-preview",
        "ollama": "qwen3",
        "mistral": "mistral-large-latest",  # ids of nine letters and digits
        "openrouter": "openai/gpt-5.1",  # ids of at most 40 characters
    }.items()
)
OLD_GEMINI = resolve_profile("gemini", "gemini-2.5-flash")  # no ids at all
IDS = (
    *(
        "x",
        "x_2",
        "x_2_2",
        "x_3",
        "call",
        "call_2",
        "call_0",
        "call_0_2",
        "0",
        "0_2",
        "null",
        "",
        "é x\n",
        "a.b:c",
        "\0",
    ),
    *("long" * 40, "long" * 40 + "_2", "call_" + "7" * 36, "abcdefghi", "toolu_1", "fc_1"),
)
NAMES = ("get", "put", "get_it")


class Storyteller:
    """Tells one history. `owners` are the tokens of the results, each with the token of its call."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.messages: list[Message] = [user("begin")]
        self.owners: dict[str, str] = {}
        self.unanswered: set[str] = set()
        self._count = 0
        # Few ids, so that they come again and meet those that were made from them.
        self._ids = self.random.sample(IDS, self.random.randint(1, 6))

    def tell(self, turns: int) -> None:
        for _ in range(turns):
            self._tell_turn()

    def _tell_turn(self) -> None:
        chance = self.random.random
        groups = [self._make_calls(self.random.randint(1, 4)) for _ in range(2 if chance() < 0.1 else 1)]
        origin = self._choose_origin()
        self.messages += [Message("assistant", self._with_text(calls, origin), origin) for calls in groups]
        calls = [call for group in groups for call in group]
        if chance() < 0.1:  # the conversation was cut off; its ids come again
            self.unanswered |= {str(call.raw) for call in calls}
            self.messages.append(user("go on"))
            return
        results = [self._answer(call) for call in calls]
        if len({call.id for call in calls}) == len(calls) and chance() < 0.3:
            self.random.shuffle(results)
        self._report(results, origin)
        if chance() < 0.4:
            self.messages += [assistant("well"), user("and now")]

    def _make_calls(self, count: int) -> list[ToolCall]:
        calls: list[ToolCall] = []
        for _ in range(count):
            self._count += 1
            token = f"call{self._count:06d}"
            calls.append(
                ToolCall(self.random.choice(self._ids), self.random.choice(NAMES), {"token": token}, token)
            )
        return calls

    def _choose_origin(self) -> Origin | None:
        if self.random.random() < 0.5:
            return None
        profile = self.random.choice((*TARGETS, OLD_GEMINI))
        return Origin(profile.wire, profile.id, profile.model)

    def _with_text(self, calls: list[ToolCall], origin: Origin | None) -> tuple[Any, ...]:
        blocks: list[Any] = [replace(call, raw=None) for call in calls]
        if origin is not None and origin.wire == "gemini" and origin.model != OLD_GEMINI.model:
            blocks = [replace(block, opaque={"id": block.id} if block.id else None) for block in blocks]
        return (*([Text("so")] if self.random.random() < 0.3 else []), *blocks)

    def _answer(self, call: ToolCall) -> ToolResult:
        self._count += 1
        token = f"result{self._count:06d}"
        self.owners[token] = str(call.raw)
        name = call.name if self.random.random() < 0.7 else ""
        return ToolResult(call.id, (Text(token),), name, is_error=self.random.random() < 0.1)

    def _report(self, results: list[ToolResult], origin: Origin | None) -> None:
        parts = [results] if self.random.random() < 0.7 else [[result] for result in results]
        self.messages += [Message("tool", tuple(part), origin) for part in parts]


# ---- the judge


def read_events(wire: str, body: Doc) -> Iterator[tuple[str, str, str]]:
    """Read ("call" or "result", id, token) in order."""
    match wire:
        case "openai-chat" | "ollama-chat":
            for message in body["messages"]:
                for call in message.get("tool_calls", ()):
                    yield "call", call["id"], find_token(call)
                if message["role"] == "tool":
                    yield "result", message["tool_call_id"], find_token(message["content"])
        case "openai-responses":
            for item in body["input"]:
                if item.get("type") in ("function_call", "function_call_output"):
                    kind = "call" if item["type"] == "function_call" else "result"
                    yield kind, item["call_id"], find_token(item)
        case "anthropic-messages":
            for message in body["messages"]:
                for block in message["content"] if isinstance(message["content"], list) else ():
                    if block["type"] == "tool_use":
                        yield "call", block["id"], find_token(block)
                    if block["type"] == "tool_result":
                        yield "result", block["tool_use_id"], find_token(block)
        case _:
            yield from read_gemini(body)


def read_gemini(body: Doc) -> Iterator[tuple[str, str, str]]:
    """Gemini pairs results with calls by id where there is one, else in order."""
    waiting: list[str] = []
    for number, content in enumerate(body["contents"]):
        for index, part in enumerate(content["parts"]):
            if "functionCall" in part:
                waiting.append(part["functionCall"].get("id") or f"no id {number}.{index}")
                yield "call", waiting[-1], find_token(part)
            if "functionResponse" in part:
                expected = waiting.pop(0)
                yield "result", part["functionResponse"].get("id") or expected, find_token(part)


def find_token(value: Any) -> str:
    """Return the token in a call or a result, "" if it has none: a result that was made up."""
    tokens = re.findall(r"(?:call|result)\d{6}(?!\d)", dumps_text(value))
    return ",".join(dict.fromkeys(tokens))


def find_misplaced(wire: str, body: Doc, owners: dict[str, str], unanswered: set[str]) -> list[str]:
    """Return what is wrong with the pairs of a body."""
    events = list(read_events(wire, body))
    calls: dict[str, str] = {}
    wrong: list[str] = []
    answers: dict[str, str] = {}  # token of the call -> token of the result
    for kind, id, token in events:
        if kind == "call":
            wrong += [f"the id {id!r} came twice"] if id in calls else []
            calls[id] = token
        elif id not in calls:
            wrong.append(f"{token} belongs to no call")
        else:
            wrong += [f"{calls[id]} has two results"] if calls[id] in answers else []
            answers[calls[id]] = token
    wanted = {call: result for result, call in owners.items()} | dict.fromkeys(unanswered, "")
    seen = {call: answers.get(call, "none") for call in calls.values()}
    return wrong + [
        f"{call}: {seen.get(call)!r}, not {result!r}"
        for call, result in wanted.items()
        if seen.get(call) != result
    ]


# ---- what is tried


def check_history(seed: int) -> list[str]:
    """Tell a history and encode it for every target; step by step, read back and handed over for some."""
    teller = Storyteller(seed)
    teller.tell(teller.random.randint(1, 5))
    messages = list(load(save(teller.messages))[0])
    wrong = [] if messages == teller.messages else ["it was loaded otherwise than saved"]
    for profile in TARGETS:
        body = encode_request(Request(profile.model, messages), profile).body
        wrong += find_misplaced(profile.wire, body, teller.owners, teller.unanswered)
    relay, *others = teller.random.sample(TARGETS, 3)
    wrong += _check_steps(messages, relay)
    if not wrong:
        wrong = _check_handover(teller, relay, others)
    return [f"history {seed}: {problem}" for problem in wrong]


def _check_steps(messages: Sequence[Message], profile: Profile) -> list[str]:
    """Encode a conversation that grows: each request is the same as if it were encoded whole."""
    encoder, conversation = PrefixEncoder(profile), Conversation()
    for number, message in enumerate(messages, 1):
        conversation.append(message)
        whole = encode_request(Request(profile.model, messages[:number]), profile).body
        if loads_object(encoder.encode(Request(profile.model, conversation)).body) != whole:
            return [f"{profile.id}: the first {number} messages are encoded otherwise step by step"]
    return []


def _check_handover(teller: Storyteller, relay: Profile, targets: Sequence[Profile]) -> list[str]:
    """Read a body back, continue with the same ids, and send all of it elsewhere."""
    body, count = encode_request(Request(relay.model, teller.messages), relay).body, len(teller.messages)
    teller.tell(2)
    decoded = decode_request(relay.wire, body, profile=relay.id, model=relay.model).messages
    wrong: list[str] = []
    for profile in targets:
        again = encode_request(Request(profile.model, [*decoded, *teller.messages[count:]]), profile).body
        problems = find_misplaced(profile.wire, again, teller.owners, teller.unanswered)
        wrong += [f"{relay.id} to {profile.id}: {problem}" for problem in problems]
    return wrong


def check_histories(seeds: Iterable[int]) -> list[str]:
    """Return what is wrong with these histories."""
    return [problem for seed in seeds for problem in check_history(seed)]
