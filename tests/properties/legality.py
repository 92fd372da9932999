"""Judges of encoded bodies: a small checker of its own for every wire, and the referee of ../shared where it
is present.

The checkers know the providers' rules on histories, not the code under test.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toolglot.providers.profile import Profile

Doc = dict[str, Any]
REFEREE = Path(__file__).parents[2] / ".." / "shared" / "referee"

# The referee judges Chat Completions for OpenAI itself. What these vendors' rows add to it: rule and path ->
# why it is right.
_UNKNOWN = "oc.schema.unknown"
_LOCAL = {
    (
        _UNKNOWN,
        "reasoning_content",
    ): "these servers take a model's reasoning back in the field they sent it in"
}
VENDOR_RULES: dict[str, dict[tuple[str, str], str]] = {
    "deepseek": {(_UNKNOWN, "reasoning_content"): "DeepSeek asks for it on every turn that called tools"},
    "openrouter": {
        (_UNKNOWN, "reasoning"): "OpenRouter takes reasoning back under its own name",
        (_UNKNOWN, "cache_control"): "OpenRouter places Claude's cache marks by one field of the body",
    },
    "groq": {(_UNKNOWN, "reasoning"): "Groq's own clients have the field in assistant messages"},
    "copilot": {(_UNKNOWN, "reasoning_text"): "Copilot's own clients send it back"},
    "xai": {(_UNKNOWN, "reasoning_content"): "xAI's API reference has the field in assistant messages"},
    "compatible": _LOCAL,
    "llama.cpp": _LOCAL,
    "lmstudio": _LOCAL,
    "vllm": _LOCAL,
}
# Rules and fields of OpenAI itself that other vendors do not share.
_OPENAI_RULES = ("oc.file_not_pdf", "oc.tools_max")
_OPENAI_LIMITS = ("top_k", "stop")


def find_refusals(profile: Profile, body: Doc, *, beta: bool | None = None) -> list[str]:
    """What the referee says that the provider would answer with a 4xx, on published evidence; nothing where
    it is absent.

    `beta`: the request has Anthropic's header for features in beta. By default, what the profile's own
    headers say."""
    if beta is None:
        beta = "anthropic-beta" in profile.headers
    if not REFEREE.exists():
        return []
    if str(REFEREE) not in sys.path:
        sys.path.append(str(REFEREE))
    check = importlib.import_module("referee").check
    api = "gemini-vertex" if profile.id == "vertex" else profile.wire
    is_vendor = profile.wire == "openai-chat" and not profile.id.startswith(("openai", "azure"))
    known = VENDOR_RULES.get(profile.id, {})
    errors: list[str] = []
    for violation in check(api, body, model=profile.model, beta=beta):
        field = violation.path.rpartition(".")[2]
        is_known = (violation.rule, field) in known or (
            is_vendor and (violation.rule in _OPENAI_RULES or field.partition("[")[0] in _OPENAI_LIMITS)
        )
        if violation.severity == "error" and violation.evidence in ("spec", "real4xx") and not is_known:
            errors.append(f"{violation.rule} {violation.path}: {violation.message}")
    return errors


def illegal(profile: Profile, body: Doc) -> list[str]:
    """What is wrong with the history and the names of a body."""
    return list(_CHECKERS[profile.wire](profile, body))


def _ids(profile: Profile, ids: list[str]) -> Iterator[str]:
    for id in ids:
        if not re.fullmatch(profile.limits.call_id, id):
            yield f"call id {id!r}"


def _names(profile: Profile, names: list[str]) -> Iterator[str]:
    for name in names:
        if not re.fullmatch(profile.limits.name, name):
            yield f"name {name!r}"


def _chat(profile: Profile, body: Doc) -> Iterator[str]:
    messages: list[Doc] = body["messages"]
    waiting: list[str] = []
    taken: set[str] = set()
    before = ""
    for number, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        if role == "tool":
            if not waiting or waiting.pop(0) != message["tool_call_id"]:
                yield f"{number}: a result of no call, or out of order"
            if not isinstance(content, str):
                yield f"{number}: a result that is no text"
        elif waiting:
            yield f"{number}: {waiting} unanswered"
        if role == "user" and before == "tool" and profile.history.filler_after_results:
            yield f"{number}: user right after tool"
        calls: list[Doc] = message.get("tool_calls", [])
        if "tool_calls" in message and (role != "assistant" or not calls):
            yield f"{number}: misplaced or empty tool_calls"
        if not calls and not message.get("refusal") and content in (None, []):
            yield f"{number}: no content"
        ids = [call["id"] for call in calls]
        if len({*ids}) != len(ids) or taken & {*ids}:
            yield f"{number}: call ids {ids} used twice"
        taken |= {*ids}
        waiting = [*waiting, *ids]
        yield from _ids(profile, ids)
        yield from _names(profile, [(call.get("function") or call["custom"])["name"] for call in calls])
        if any(not isinstance(call["function"]["arguments"], str) for call in calls if "function" in call):
            yield f"{number}: arguments are no text"
        if (
            profile.reasoning_echo == "required"
            and calls
            and not isinstance(message.get("reasoning_content"), str)
        ):
            yield f"{number}: calls without reasoning_content"
        before = role
    if waiting:
        yield f"{waiting} unanswered"
    tools = [tool[tool["type"]] for tool in body.get("tools", []) if tool["type"] in ("function", "custom")]
    yield from _tools(profile, [tool["name"] for tool in tools], "tools" in body, "tool_choice" in body)


def _tools(profile: Profile, names: list[str], some: bool, chosen: bool) -> Iterator[str]:
    yield from _names(profile, names)
    if len({*names}) != len(names):
        yield f"two tools of one name: {names}"
    if chosen and not some:
        yield "a choice without tools"


_OUTPUT = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
}


def _responses(profile: Profile, body: Doc) -> Iterator[str]:
    items: list[Doc] = body.get("input", [])
    waiting: list[tuple[str, str]] = []
    taken: set[str] = set()
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in _OUTPUT.values():
            if not waiting or waiting.pop(0) != (item["call_id"], kind):
                yield f"{number}: an output of no call, or out of order"
        elif waiting and item.get("role") in ("user", "system", "developer"):
            yield f"{number}: {waiting} unanswered"
        if kind in _OUTPUT:
            if item["call_id"] in taken:
                yield f"{number}: call id used twice"
            taken.add(item["call_id"])
            waiting.append((item["call_id"], _OUTPUT[kind]))
            yield from _ids(profile, [item["call_id"]])
            yield from _names(profile, [item["name"]] if "name" in item else [])
        if kind == "message" and item["content"] in (None, []):
            yield f"{number}: no content"
        if kind == "reasoning":
            after = next(
                (other for other in items[number + 1 :] if other.get("type") != "reasoning"), {"role": "user"}
            )
            if after.get("role") in ("user", "system", "developer") or after.get("type") in _OUTPUT.values():
                yield f"{number}: reasoning without what it led to"
    if waiting:
        yield f"{waiting} unanswered"
    tools: list[Doc] = body.get("tools", [])
    flat = [tool["name"] for tool in tools if tool["type"] in ("function", "custom")]
    yield from _tools(profile, flat, bool(tools), "tool_choice" in body)
    for space in tools:
        if space["type"] == "namespace":
            yield from _tools(profile, [tool["name"] for tool in space["tools"]], True, False)


def _blocks(message: Doc) -> list[Doc]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _anthropic(profile: Profile, body: Doc) -> Iterator[str]:
    # the API joins neighbours of one role; instructions between turns do not count
    turns: list[tuple[str, list[Doc]]] = []
    for number, message in enumerate(body["messages"]):
        if not message["content"]:
            yield f"{number}: no content"
        if message["role"] == "system" and number:
            continue
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(_blocks(message))
        else:
            turns.append((message["role"], list(_blocks(message))))
    if not turns or turns[0][0] != "user":
        yield "the first message is not the user's"
    waiting: list[str] = []
    taken: set[str] = set()
    for number, (role, blocks) in enumerate(turns):
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if [block.get("tool_use_id") for block in blocks[: len(waiting)]] != waiting or len(answered) != len(
            waiting
        ):
            yield f"turn {number}: results {answered} for calls {waiting}"
        calls = [block for block in blocks if block["type"] == "tool_use"]
        ids = [call["id"] for call in calls]
        if (calls and role != "assistant") or (answered and role != "user"):
            yield f"turn {number}: calls or results of the wrong speaker"
        if len({*ids}) != len(ids) or taken & {*ids}:
            yield f"turn {number}: call ids used twice"
        taken |= {*ids}
        yield from _ids(profile, ids)
        yield from _names(profile, [call["name"] for call in calls])
        kinds = [block["type"] for block in blocks]
        if "tool_use" in kinds and "text" in kinds[kinds.index("tool_use") :]:
            yield f"turn {number}: text after a call"
        if any(not isinstance(call["input"], dict) for call in calls):
            yield f"turn {number}: arguments are no object"
        inner: list[Doc] = [
            part for block in blocks if isinstance(block.get("content"), list) for part in block["content"]
        ]
        instructions: list[Doc] = [] if isinstance(body.get("system", ""), str) else body["system"]
        for block in [*blocks, *inner, *instructions]:
            if block["type"] == "text" and not block["text"].strip():
                yield f"turn {number}: blank text"
        waiting = ids
    if waiting:
        yield f"{waiting} unanswered"
    role, blocks = turns[-1] if turns else ("", [])
    if role == "assistant" and profile.history.ends_with_user:
        yield "the last message is the assistant's"
    if (
        role == "assistant"
        and blocks[-1]["type"] == "text"
        and blocks[-1]["text"] != blocks[-1]["text"].rstrip()
    ):
        yield "the last text ends with white space"
    yield from _tools(
        profile, [tool["name"] for tool in body.get("tools", [])], "tools" in body, "tool_choice" in body
    )


_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
)


def _gemini(profile: Profile, body: Doc) -> Iterator[str]:
    contents: list[Doc] = body["contents"]
    if not contents or contents[0]["role"] != "user":
        yield "the first content is not the user's"
    waiting: list[Doc] = []
    for number, content in enumerate(contents):
        parts: list[Doc] = content["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if content["role"] not in ("user", "model") or not parts:
            yield f"{number}: role or no parts"
        if any(len([key for key in part if key in _DATA]) != 1 for part in parts):
            yield f"{number}: a part without data, or with two kinds"
        if waiting or answers:
            keys = ("name", "id")
            if [[a.get(key) for key in keys] for a in answers] != [
                [c.get(key) for key in keys] for c in waiting
            ]:
                yield f"{number}: answers {answers} for calls {waiting}"
            if len(answers) != len(parts):
                yield f"{number}: results and other parts in one content"
        if (calls and content["role"] != "model") or (answers and content["role"] != "user"):
            yield f"{number}: calls or results of the wrong speaker"
        if not all(
            isinstance(v, dict) for v in [*(c["args"] for c in calls), *(a["response"] for a in answers)]
        ):
            yield f"{number}: arguments or a response that is no object"
        first = next((part for part in parts if "functionCall" in part), None)
        if first and profile.signatures and not first.get("thoughtSignature"):
            yield f"{number}: the first call has no signature"
        yield from _names(profile, [call["name"] for call in calls])
        waiting = calls
    if waiting:
        yield "calls unanswered at the end"
    declared = [d["name"] for tool in body.get("tools", []) for d in tool.get("functionDeclarations", [])]
    config = body.get("toolConfig", {}).get("functionCallingConfig", {})
    yield from _tools(profile, declared, bool(declared), bool(config))
    if config.get("allowedFunctionNames") and config["mode"] not in ("ANY", "VALIDATED"):
        yield "names with a mode that takes none"


def _ollama(profile: Profile, body: Doc) -> Iterator[str]:
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        if not isinstance(message["content"], str) or message["role"] not in (
            "system",
            "user",
            "assistant",
            "tool",
        ):
            yield f"{number}: content or role"
        if message["role"] == "tool":
            if not waiting or waiting.pop(0) != message["tool_call_id"] or not message.get("tool_name"):
                yield f"{number}: a result of no call, out of order, or without a name"
        elif waiting:
            yield f"{number}: {waiting} unanswered"
        for call in message.get("tool_calls", []):
            waiting.append(call["id"])
            if not isinstance(call["function"]["arguments"], dict):
                yield f"{number}: arguments are no object"
    if waiting:
        yield f"{waiting} unanswered"
    yield from _tools(profile, [tool["function"]["name"] for tool in body.get("tools", [])], True, False)


_CHECKERS: dict[str, Callable[[Profile, Doc], Iterator[str]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "gemini": _gemini,
    "ollama-chat": _ollama,
}
