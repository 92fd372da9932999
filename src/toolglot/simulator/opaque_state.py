"""Ids of calls, and the opaque state that must come back unchanged (signatures, encrypted reasoning).

State is a hash of who made it and what it belongs to, so it can be checked without being stored.
"""

import base64
import re
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.providers.profile import Profile
from toolglot.values.messages import Block, Foreign, Thinking, ToolCall, ToolsChanged
from toolglot.values.request import Request
from toolglot.wire import spec
from toolglot.wire.ids import hash_id
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts
from toolglot.wire.writer import Writer

__all__ = ["add_searches", "add_state", "shows_thinking", "sign_state"]

# Models that think by default; others, all of Anthropic's among them, do if the request asks for it.
_THINKING_MODELS = re.compile(r"(^|/)o\d|gpt-[5-9]|gemini-[3-9]|deepseek")
_MODEL_SUFFIX = re.compile(r"(-(latest|\d{4}-\d{2}-\d{2}|\d{3,8})|[@:].*)$")
# The field of a thought that carries its state.
_STATE_FIELDS = {spec.ANTHROPIC_MESSAGES: "signature", spec.OPENAI_RESPONSES: "encrypted_content"}
# The field that carries reasoning, where it is not `reasoning_content`.
_REASONING_FIELDS = {"openrouter": "reasoning", "groq": "reasoning", "copilot": "reasoning_text"}


def shows_thinking(request: Request, profile: Profile) -> bool:
    """Whether the model shows its reasoning in this request."""
    options = request.options
    extras = request.extras.get(profile.wire, {})
    mode = as_dict(extras.get("thinking")).get("type")
    if options.effort == "none" or options.thinking_budget == 0:
        return False
    if mode in ("disabled", "between_tools"):
        return False
    if (
        profile.wire == spec.ANTHROPIC_MESSAGES
        and request.tool_choice
        and request.tool_choice.mode == "required"
    ):
        return False  # a forced call suppresses it
    if any((options.effort, options.thinking_budget, extras.get("think"), extras.get("thinking"))):
        return True
    return profile.reasoning_echo == "required" or _THINKING_MODELS.search(profile.model) is not None


def sign_state(profile: Profile, payload: str) -> str:
    """Return the state that a model gives to a thought or a call, in base64."""
    model = _MODEL_SUFFIX.sub("", profile.model.rpartition("/")[2]) if profile.state == "model" else ""
    text = f"simulated\0{profile.id}\0{model}\0{payload}"
    return base64.b64encode(sha256(text.encode("utf-8", "surrogatepass")).digest()[:24]).decode()


def add_state(
    blocks: tuple[Block, ...], profile: Profile, next_number: Callable[[], int]
) -> tuple[Block, ...]:
    """Return the blocks of a reply with ids and state."""
    # OpenAI shows no reasoning on Chat; Mistral's is a part of the content, which this model does not write.
    hides_thinking = profile.wire == spec.OPENAI_CHAT and (
        profile.reasoning_echo == "no" or profile.id == "mistral"
    )
    out: list[Block] = []
    is_first = True
    for block in blocks:
        match block:
            case Thinking():
                if not hides_thinking:
                    out.append(_finish_thinking(block, profile))
            case ToolCall():
                out.append(_finish_call(block, profile, next_number, is_first))
                is_first = False
            case _:
                out.append(block)
    return tuple(out)


def _finish_thinking(block: Thinking, profile: Profile) -> Thinking:
    """Return a thought as the provider signs it, or names its field."""
    opaque = block.opaque or {}
    key = _STATE_FIELDS.get(profile.wire)
    if key and "redacted" not in opaque:
        return replace(block, opaque={**opaque, key: sign_state(profile, block.text)})
    if profile.id in _REASONING_FIELDS:
        return replace(block, opaque={"field": _REASONING_FIELDS[profile.id]})
    return block


def add_searches(
    blocks: tuple[Block, ...], wire: str, body: Doc, next_number: Callable[[], int]
) -> tuple[Block, ...]:
    """Return the blocks of a reply with the provider's own searches for tools, in the form of the wire."""
    write_search = _search_anthropic if wire == spec.ANTHROPIC_MESSAGES else _search_responses
    out: list[Block] = []
    for block in blocks:
        if not isinstance(block, ToolsChanged) or block.opaque:
            out.append(block)
            continue
        call, item = write_search(block.loaded, body, next_number())
        out += [Foreign(wire, call), replace(block, opaque={"item": item})]
    return tuple(out)


def _search_anthropic(loaded: tuple[str, ...], body: Doc, number: int) -> tuple[Doc, Doc]:
    """Return the call of a server's search for tools and its result, in the form of Messages."""
    names = [name.rpartition(".")[2] for name in loaded]
    id = f"srvtoolu_{number:06d}"
    tools = [
        tool
        for tool in iter_dicts(body.get("tools"))
        if as_text(tool.get("type")).startswith("tool_search_tool")
    ]
    name = as_text(tools[0].get("name")) if tools else ""
    field = "pattern" if "regex" in name else "query"
    query = {field: "|".join(names)}
    call: Doc = {
        "type": "server_tool_use",
        "id": id,
        "name": name,
        "input": query,
        "caller": {"type": "direct"},
    }
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return call, {"type": "tool_search_tool_result", "tool_use_id": id, "content": content}


def _search_responses(loaded: tuple[str, ...], body: Doc, number: int) -> tuple[Doc, Doc]:
    """Return the call of a server's search for tools and its result, in the form of Responses."""
    state = {"execution": "server", "call_id": None, "status": "completed"}
    call = {
        "type": "tool_search_call",
        "id": f"tsc_{number:06d}",
        **state,
        "arguments": {"paths": list(loaded)},
    }
    names = {name.rpartition(".")[2] for name in loaded}
    declared = list(iter_dicts(body.get("tools")))
    tools = [tool for tool in declared if tool.get("name") in names]
    for namespace in declared:
        prefix = f"{as_text(namespace.get('name'))}."
        inner = [
            tool
            for tool in iter_dicts(namespace.get("tools"))
            if prefix + as_text(tool.get("name")) in loaded
        ]
        if inner:
            tools.append({**namespace, "tools": inner})
    return call, {"type": "tool_search_output", "id": f"tso_{number:06d}", **state, "tools": tools}


def _make_call_id(profile: Profile, number: int) -> str:
    """Return an id in the provider's form."""
    id = f"{spec.SPECS[profile.wire].call_id_prefix}{number:06d}"
    if re.fullmatch(profile.limits.call_id, id):
        return id
    return hash_id(id, profile.limits.call_id_length)


def _finish_call(
    call: ToolCall, profile: Profile, next_number: Callable[[], int], is_first: bool
) -> ToolCall:
    id = call.id or _make_call_id(profile, next_number())
    raw = call.raw
    if raw is None:
        raw = dumps_text(call.arguments or {})
    opaque = dict(call.opaque or {})
    if profile.wire == spec.GEMINI and profile.call_ids:
        opaque["id"] = id
    if "item" in opaque:
        opaque["item"] = {"id": f"item_{next_number():06d}", "call_id": id, **opaque["item"]}
    is_signed = profile.signatures and is_first  # Gemini 3 signs only the first call of a turn
    if is_signed:
        name = Writer(profile).map_tool_name(call.name, call.namespace)  # as the reply will have it
        opaque["thoughtSignature"] = sign_state(profile, name)
    return replace(call, id=id, raw=raw, opaque=opaque or None)
