"""What a simulated model says in its wire's own way: ids of calls, and state that must come back unchanged.

Law: state is a hash of who made it and what it belongs to, so it can be checked without being remembered.
"""

import base64
import re
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Thinking, ToolCall
from toolglot.providers.profile import Profile
from toolglot.request import Request
from toolglot.wire import spec
from toolglot.wire.ids import hash_id
from toolglot.wire.json_values import as_dict

__all__ = ["add_state", "shows_thinking", "sign_state"]

# Models that think without being asked, by name; others do where the request asks for it.
_THINKING_MODELS = re.compile(r"claude-.*-5|claude-sonnet-4|(^|/)o\d|gpt-[5-9]|gemini-[3-9]|deepseek")
_MODEL_SUFFIX = re.compile(r"(-(latest|\d{4}-\d{2}-\d{2}|\d{3,8})|[@:].*)$")
# The field that reasoning comes in, where it is not reasoning_content.
_REASONING_FIELDS = {"openrouter": "reasoning", "groq": "reasoning", "copilot": "reasoning_text"}


def shows_thinking(request: Request, profile: Profile) -> bool:
    """Whether the model shows its reasoning in this request."""
    options, own = request.options, request.extras.get(profile.wire, {})
    if options.effort == "none" or options.thinking_budget == 0 or as_dict(own.get("thinking")).get("type") == "disabled":
        return False
    if profile.wire == spec.ANTHROPIC_MESSAGES and request.tool_choice and request.tool_choice.mode == "required":
        return False  # a forced call suppresses it
    asked = options.effort or options.thinking_budget or own.get("think") or own.get("thinking")
    return bool(asked) or profile.reasoning_echo == "required" or _THINKING_MODELS.search(profile.model) is not None


def sign_state(profile: Profile, payload: str) -> str:
    """The state that this model gives to a thought or a call, in base64."""
    model = _MODEL_SUFFIX.sub("", profile.model.rpartition("/")[2]) if profile.state == "model" else ""
    text = f"simulated\0{profile.id}\0{model}\0{payload}"
    return base64.b64encode(sha256(text.encode("utf-8", "surrogatepass")).digest()[:24]).decode()


def add_state(blocks: tuple[Block, ...], profile: Profile, next_number: Callable[[], int]) -> tuple[Block, ...]:
    """The blocks of a reply with ids and state."""
    out: list[Block] = []
    first = True
    for block in blocks:
        if isinstance(block, Thinking):
            # OpenAI shows no reasoning on Chat; Mistral's is a part of the content, which this model does not make
            if profile.wire != spec.OPENAI_CHAT or (profile.reasoning_echo != "no" and profile.id != "mistral"):
                out.append(_sign_thinking(block, profile))
        elif isinstance(block, ToolCall):
            out.append(_finish_call(block, profile, next_number, first))
            first = False
        else:
            out.append(block)
    return tuple(out)


def _sign_thinking(block: Thinking, profile: Profile) -> Thinking:
    own = block.opaque or {}
    match profile.wire:
        case spec.ANTHROPIC_MESSAGES:
            return block if "redacted" in own else replace(block, opaque={**own, "signature": sign_state(profile, block.text)})
        case spec.OPENAI_RESPONSES:
            return replace(block, opaque={**own, "encrypted_content": sign_state(profile, block.text)})
        case spec.OPENAI_CHAT if profile.id in _REASONING_FIELDS:
            return replace(block, opaque={"field": _REASONING_FIELDS[profile.id]})
        case _:
            return block


def _finish_call(call: ToolCall, profile: Profile, next_number: Callable[[], int], is_first: bool) -> ToolCall:
    id = call.id
    if not id:
        id = f"{spec.SPECS[profile.wire].call_id_prefix}{next_number():06d}"
        if not re.fullmatch(profile.limits.call_id, id):
            id = hash_id(id, profile.limits.call_id_length)
    raw = call.raw if call.raw is not None else dumps_text(call.arguments or {})
    own = dict(call.opaque or {})
    if profile.wire == spec.GEMINI and profile.call_ids:
        own["id"] = id
    if "item" in own:
        own["item"] = {"id": f"item_{next_number():06d}", "call_id": id, **own["item"]}
    if profile.signatures and is_first:
        own["thoughtSignature"] = sign_state(profile, call.name)
    return replace(call, id=id, raw=raw, opaque=own or None)
