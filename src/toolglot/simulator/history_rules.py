"""What each provider asks of a conversation: calls answered, results where they belong, state unchanged. Reads the raw body."""

import re
from collections.abc import Iterator
from typing import Any

from toolglot.jsontext import json_type_name
from toolglot.providers.profile import Profile
from toolglot.simulator.opaque_state import sign_state
from toolglot.simulator.refusals import Refusal
from toolglot.simulator.request_fields import MESSAGE_FIELDS
from toolglot.wire import spec
from toolglot.wire.gemini.reply_decode import snake_to_camel
from toolglot.wire.gemini.request_encode import DUMMY_SIGNATURE
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["HISTORY_CHECKS", "camel_keys", "requires_reasoning"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# Claude models that take instructions between turns.
_MID_SYSTEM_MODELS = re.compile(r"claude-((fable|mythos)-5|opus-(4-8|5)|sonnet-5|haiku-5-5)")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def _bad_call_id(path: str, id: str, profile: Profile) -> Refusal:
    most = profile.limits.call_id_length
    if profile.id == "mistral":
        return Refusal(f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.")
    text = f"string too long. Expected a string with maximum length {most}, but got a string with length {len(id)} instead."
    return Refusal(f"Invalid '{path}': {text if id else 'empty string.'}", code="string_above_max_length", param=path)


# ---- Chat Completions


def check_chat(body: Doc, profile: Profile) -> None:
    """Every call is answered right after its turn, by a tool message with its id."""
    waiting: list[str] = []
    before = ""
    messages = as_list(body.get("messages"))
    if not messages:
        raise Refusal(
            "Invalid 'messages': empty array. Expected an array with minimum length 1.", code="empty_array", param="messages"
        )
    for at, message in enumerate(messages):
        place = f"messages[{at}]"
        if not isinstance(message, dict):
            raise Refusal(
                f"Invalid type for '{place}': expected an object, but got {json_type_name(message)} instead.",
                code="invalid_type",
            )
        doc = as_dict(message)
        role = as_text(doc.get("role"))
        if role not in _ROLES:
            raise Refusal(
                f"Invalid value: '{role}'. Supported values are: {', '.join(map(repr, _ROLES))}.", param=f"{place}.role"
            )
        if role == "tool":
            _check_tool_message(doc, place, waiting, profile)
        elif waiting:
            raise _missing_results(waiting)
        if role == "user" and before == "tool" and profile.history.filler_after_results:
            raise Refusal("Unexpected role 'user' after role 'tool'")
        _check_chat_message(doc, place, role, profile)
        if role == "assistant":
            waiting = _check_chat_calls(doc, place, profile, body)
        before = role
    if waiting:
        raise _missing_results(waiting)


def _missing_results(pending: list[str]) -> Refusal:
    return Refusal(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(pending)}",
        param="messages",
    )


def _check_tool_message(doc: Doc, path: str, pending: list[str], profile: Profile) -> None:
    id = doc.get("tool_call_id")
    if not isinstance(id, str):
        raise Refusal(f"Missing required parameter: '{path}.tool_call_id'.", code="missing_required_parameter")
    if id not in pending:
        raise Refusal(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            param=f"{path}.role",
        )
    pending.remove(id)
    if profile.reasoning_echo == "no" and any(part.get("type") != "text" for part in iter_dicts(doc.get("content"))):
        raise Refusal(f"Invalid '{path}'. Tool messages hold text only: image_url is only allowed for role 'user'.", param=path)


def _check_chat_message(doc: Doc, path: str, role: str, profile: Profile) -> None:
    content = doc.get("content")
    if profile.reasoning_echo == "no" and (unknown := doc.keys() - MESSAGE_FIELDS):
        raise Refusal(f"Unknown parameter: '{path}.{min(unknown)}'.", code="unknown_parameter", param=path)
    said = doc.get("tool_calls") or doc.get("function_call") or doc.get("refusal") or doc.get("audio")
    if content is None and not (role == "assistant" and said):
        raise Refusal(f"Invalid value for 'content': expected a string, got null. ({path})", param=f"{path}.content")
    if not isinstance(content, str | list | None):
        raise Refusal(f"Invalid type for '{path}.content': expected a string or an array.", code="invalid_type")
    if role == "system" and profile.system_role == "user":
        raise Refusal(f"Unsupported value: '{path}.role' does not support 'system' with this model.", code="unsupported_value")


def _check_chat_calls(doc: Doc, path: str, profile: Profile, body: Doc) -> list[str]:
    ids: list[str] = []
    if doc.get("tool_calls") == []:
        raise Refusal(f"Invalid '{path}.tool_calls': empty array. Expected an array with minimum length 1.", code="empty_array")
    for at, call in enumerate(iter_dicts(doc.get("tool_calls"))):
        where = f"{path}.tool_calls[{at}]"
        id, function = as_text(call.get("id")), as_dict(call.get("function") or call.get("custom"))
        text = function.get("input" if "custom" in call else "arguments")
        if not re.fullmatch(profile.limits.call_id, id):
            raise _bad_call_id(f"{where}.id", id, profile)
        if id in ids:
            raise Refusal(f"Duplicate value for 'tool_call_id' of '{id}' in '{path}'.", param=where)
        if not isinstance(text, str) and not (profile.id == "mistral" and isinstance(text, dict)):
            raise Refusal(
                f"Invalid type for '{where}.function.arguments': expected a string, but got {json_type_name(text)} instead."
            )
        ids.append(id)
    if ids and requires_reasoning(body, profile) and not isinstance(doc.get("reasoning_content"), str):
        raise Refusal("The `reasoning_content` in the thinking mode must be passed back to the API.")
    return ids


def requires_reasoning(body: Doc, profile: Profile) -> bool:
    """DeepSeek: thinking is on unless it is switched off, and asks for more care."""
    off = as_dict(body.get("thinking")).get("type") == "disabled" or profile.model == "deepseek-chat"
    return profile.reasoning_echo == "required" and not off


# ---- Responses

_CALL_TYPES = {
    "function_call": "fc",
    "custom_tool_call": "ctc",
    **dict.fromkeys(("shell_call", "local_shell_call", "apply_patch_call", "computer_call"), ""),
}
_OUTPUT_TYPES = {f"{name}_output" for name in _CALL_TYPES}
_AFTER_REASONING = re.compile(r"(?:fc|msg|ctc)_(\w+r)_\d+")
_ID_PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "message": "msg", "reasoning": "rs"}


def check_responses(body: Doc, profile: Profile) -> None:
    """Calls and outputs in pairs; reasoning with what it led to."""
    items = list(iter_dicts(body.get("input"))) if isinstance(body.get("input"), list) else []
    calls: list[str] = []
    answered: set[str] = set()
    seen: set[str] = set()
    for at, item in enumerate(items):
        name = as_text(item.get("type")) or "message"
        _check_item_id(item, name, f"input[{at}]", seen)
        if name in _CALL_TYPES or name in _OUTPUT_TYPES:
            _check_pair(item, name, f"input[{at}]", calls, answered, profile)
        elif name == "tool_search_call":  # the server's own, or answered in one of several forms
            calls.append(as_text(item.get("call_id")))
            answered.add(calls[-1])
        elif name == "message":
            _check_message_parts(item, f"input[{at}]")
        elif name == "reasoning":
            _check_reasoning(item, items[at + 1 :], body, profile)
    if left := [id for id in calls if id not in answered]:
        raise Refusal(f"No tool output found for function call {left[0]}.", param="input")


def _check_item_id(item: Doc, name: str, path: str, seen: set[str]) -> None:
    id = item.get("id")
    if id is None:
        return
    text, prefix = as_text(id), _ID_PREFIXES.get(name, "")
    if not text.startswith(prefix):
        raise Refusal(f"Invalid '{path}.id': '{text}'. Expected an ID that begins with '{prefix}'.", code="invalid_value")
    if len(text) > 64:
        raise Refusal(f"Invalid '{path}.id': string too long. Expected a string with maximum length 64, but got {len(text)}.")
    if text in seen:
        raise Refusal(f"Duplicate item found with id {text}. Remove duplicate items from your input and try again.")
    seen.add(text)
    if (match := _AFTER_REASONING.fullmatch(text)) and not any(one.startswith(f"rs_{match[1]}_") for one in seen):
        raise Refusal(f"Item '{text}' of type '{name}' was provided without its required 'reasoning' item: 'rs_{match[1]}_0'.")


def _check_pair(item: Doc, name: str, path: str, calls: list[str], answered: set[str], profile: Profile) -> None:
    id = as_text(item.get("call_id"))
    if not re.fullmatch(profile.limits.call_id, id):
        raise _bad_call_id(f"{path}.call_id", id, profile)
    if name in _OUTPUT_TYPES:
        if id not in calls:
            raise Refusal(f"No tool call found for function call output with call_id {id}.", param="input")
        _check_output(item, name, path)
        answered.add(id)
        return
    if name == "function_call" and not isinstance(item.get("arguments"), str):
        raise Refusal(f"Invalid type for '{path}.arguments': expected a string.", code="invalid_type")
    calls.append(id)


def _check_output(item: Doc, name: str, path: str) -> None:
    """Outputs of the tools that the models know by themselves have a form of their own."""
    if name == "apply_patch_call_output" and item.get("status") not in ("completed", "failed"):
        raise Refusal(f"Missing required parameter: '{path}.status'.", code="missing_required_parameter")
    if name != "shell_call_output":
        return
    for at, part in enumerate(iter_dicts(item.get("output"))):
        for field in ("stdout", "stderr", "outcome"):
            if field not in part:
                raise Refusal(f"Missing required parameter: '{path}.output[{at}].{field}'.", code="missing_required_parameter")
    if not isinstance(item.get("output"), list):
        raise Refusal(f"Invalid type for '{path}.output': expected an array.", code="invalid_type")


def _check_message_parts(item: Doc, path: str) -> None:
    role = as_text(item.get("role"))
    if role not in _ROLES[:4]:
        raise Refusal(
            f"Invalid value: '{role}'. Supported values are: {', '.join(map(repr, _ROLES[:4]))}.", param=f"{path}.role"
        )
    wrong = {"input_text", "input_image", "input_file", "text"} if role == "assistant" else {"output_text", "refusal", "text"}
    right = "'output_text' and 'refusal'" if role == "assistant" else "'input_text', 'input_image', and 'input_file'"
    for part in iter_dicts(item.get("content")):
        if part.get("type") in wrong:
            raise Refusal(f"Invalid value: '{part.get('type')}'. Supported values are: {right}.", param=f"{path}.content")


def _check_reasoning(item: Doc, after: list[Doc], body: Doc, profile: Profile) -> None:
    id, cipher = as_text(item.get("id")), item.get("encrypted_content")
    follower = next((one for one in after if one.get("type") != "reasoning"), None)
    name = (as_text(follower.get("type")) or "message") if follower else ""
    if follower is None or name in _OUTPUT_TYPES or (name == "message" and follower.get("role") != "assistant"):
        raise Refusal(f"Item '{id}' of type 'reasoning' was provided without its required following item.", param="input")
    if not isinstance(item.get("summary"), list):
        raise Refusal("Missing required parameter: 'input.summary'.", code="missing_required_parameter")
    if cipher is None and body.get("store") is False:
        raise Refusal(f"Item with id '{id}' not found. Items are not persisted when `store` is set to false.")
    text = "".join(as_text(part.get("text")) for part in iter_dicts(item.get("summary")))
    if cipher is not None and cipher != sign_state(profile, text):
        raise Refusal(f"The encrypted content for item {id} could not be verified.", code="invalid_encrypted_content")


# ---- Anthropic


def check_anthropic(body: Doc, profile: Profile) -> None:
    """Results come first in the message after their calls, each exactly once; thinking comes back unchanged."""
    turns = list(_merge_turns(body, profile))
    if not turns:
        raise Refusal("messages: at least one message is required")
    waiting: list[str] = []
    for at, role, blocks in turns:
        results = [as_text(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        leading = 0
        while leading < len(blocks) and blocks[leading].get("type") == "tool_result":
            leading += 1
        if orphan := next((id for id in results if id not in waiting), None):
            raise Refusal(
                f"messages.{at}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {orphan}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if left := [id for id in waiting if id not in results[:leading]]:
            raise _missing_tool_results(at - 1, left)
        if double := next((id for id in results if results.count(id) > 1), None):
            raise Refusal(
                f"messages.{at}.content: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {double}"
            )
        waiting = _check_tool_uses(at, role, blocks, profile)
        for number, block in enumerate(blocks):
            _check_block(f"messages.{at}.content.{number}", role, block, profile)
    if waiting:
        raise _missing_tool_results(turns[-1][0], waiting)
    _check_last_turn(body, turns[-1], turns, profile)


def _missing_tool_results(index: int, ids: list[str]) -> Refusal:
    return Refusal(
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _merge_turns(body: Doc, profile: Profile) -> Iterator[tuple[int, str, list[Doc]]]:
    """Neighbours of one role are one turn: (index of its last message, role, blocks)."""
    role, blocks, last = "", list[Doc](), 0
    messages = as_list(body.get("messages"))
    for at, message in enumerate(messages):
        doc = as_dict(message)
        speaker, content = as_text(doc.get("role")), doc.get("content")
        if speaker == "system" and _MID_SYSTEM_MODELS.search(profile.model):
            continue
        if speaker not in ("user", "assistant"):
            raise Refusal(f"messages.{at}.role: role '{speaker}' is not supported on this model; use 'user' or 'assistant'")
        if unknown := doc.keys() - {"role", "content"}:
            raise Refusal(f"messages.{at}.{min(unknown)}: Extra inputs are not permitted")
        if content in ("", [], None) and not (speaker == "assistant" and at == len(messages) - 1):
            raise Refusal(
                f"messages.{at}: all messages must have non-empty content except for the optional final assistant message"
            )
        if not isinstance(content, str | list):
            raise Refusal(f"messages.{at}.content: Input should be a valid string or list")
        if speaker != role and role:
            yield last, role, blocks
            blocks = []
        role, last = speaker, at
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else iter_dicts(content)  # pyright: ignore[reportUnknownArgumentType]
    if role:
        yield last, role, blocks


def _check_tool_uses(index: int, role: str, blocks: list[Doc], profile: Profile) -> list[str]:
    ids: list[str] = []
    for number, block in enumerate(blocks):
        place = f"messages.{index}.content.{number}"
        if block.get("type") == "tool_use":
            id = as_text(block.get("id"))
            if role != "assistant":
                raise Refusal(f"{place}: `tool_use` blocks can only be in `assistant` messages")
            if not re.fullmatch(profile.limits.call_id, id):
                raise Refusal(f"{place}.tool_use.id: String should match pattern '^{profile.limits.call_id}$'")
            if id in ids:
                raise Refusal(f"{place}: `tool_use` ids must be unique")
            if not isinstance(block.get("input"), dict):
                raise Refusal(f"{place}.tool_use.input: Input should be a valid dictionary")
            ids.append(id)
        elif ids and block.get("type") in ("text", "thinking"):
            raise _missing_tool_results(index, ids)
    return ids


def _check_block(path: str, role: str, block: Doc, profile: Profile) -> None:
    match block.get("type"):
        case "text":
            text = as_text(block.get("text"))
            if not text or (role == "user" and not text.strip()):  # white space of the assistant's own is taken
                raise Refusal("messages: text content blocks must be non-empty and contain non-whitespace text")
        case "tool_result":
            if role != "user":
                raise Refusal(f"{path}: `tool_result` blocks can only be in `user` messages")
            if block.get("is_error") and block.get("content") in (None, "", []):
                raise Refusal(f"{path}.tool_result: content cannot be empty if `is_error` is true")
        case "thinking":
            if block.get("signature") != sign_state(profile, as_text(block.get("thinking"))):
                raise Refusal(f"{path}: Invalid `signature` in `thinking` block")
        case "image":
            source = as_dict(block.get("source"))
            if source.get("type") == "base64" and source.get("media_type") not in _IMAGE_TYPES:
                raise Refusal(f"{path}.image.source.base64.media_type: Input should be {', '.join(map(repr, _IMAGE_TYPES))}")
        case None:
            raise Refusal(f"{path}.type: Field required")
        case _:
            pass


def _check_last_turn(
    body: Doc, last: tuple[int, str, list[Doc]], turns: list[tuple[int, str, list[Doc]]], profile: Profile
) -> None:
    at, role, blocks = last
    if role == "assistant":
        if profile.history.ends_with_user:
            raise Refusal(
                "This model does not support assistant message prefill. The conversation must end with a user message."
            )
        if blocks and (text := as_text(blocks[-1].get("text"))) != text.rstrip():
            raise Refusal("messages: final assistant content cannot end with trailing whitespace")
        if any(block.get("type") == "thinking" for block in blocks):
            raise Refusal(f"messages.{at}.content.0: an `assistant` message in the final position cannot contain `thinking`")
    if as_dict(body.get("thinking")).get("type") != "enabled":
        return
    loop: list[Doc] = []
    for _, speaker, said in reversed(turns):
        if speaker == "assistant":
            if not any(block.get("type") == "tool_use" for block in said):
                break
            loop = said
        elif not any(block.get("type") == "tool_result" for block in said):
            break
    if loop and loop[0].get("type") not in ("thinking", "redacted_thinking"):
        raise Refusal(
            f"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{loop[0].get('type')}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block"
        )


# ---- Gemini


def camel_keys(doc: Any) -> Doc:
    """Google's JSON takes snake_case keys too."""
    return {snake_to_camel(key): value for key, value in as_dict(doc).items()}


def check_gemini(body: Doc, profile: Profile) -> None:
    """As many responses as calls, right after them; Gemini 3 also wants its signature on the first call of a turn."""
    contents = body.get("contents")
    turns = _group_turns([camel_keys(one) for one in (as_list(contents) if isinstance(contents, list) else [contents])])
    waiting: list[Doc] = []
    before = ""
    for role, parts in turns:
        calls = [camel_keys(part["functionCall"]) for part in parts if "functionCall" in part]
        results = [camel_keys(part["functionResponse"]) for part in parts if "functionResponse" in part]
        if waiting or results:
            _check_function_responses(waiting, results)
        if calls and (role != "model" or before not in ("user", "results")):
            raise Refusal(
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
            )
        waiting, before = calls, "results" if results else "calls" if calls else "user" if role != "model" else "model"
    if waiting:
        _check_function_responses(waiting, [])
    if profile.signatures:
        _check_signatures(turns, profile)


def _group_turns(contents: list[Doc]) -> list[tuple[str, list[Doc]]]:
    """Neighbours of one role are one turn."""
    turns: list[tuple[str, list[Doc]]] = []
    if not any(contents):
        raise Refusal("* GenerateContentRequest.contents: contents is not specified")
    for at, content in enumerate(contents):
        role = as_text(content.get("role")) or "user"
        if role not in ("user", "model", "function"):
            raise Refusal("Please use a valid role: user, model.")
        role, parts = "model" if role == "model" else "user", _check_parts(content, at)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(parts)
        else:
            turns.append((role, parts))
    return turns


def _check_parts(content: Doc, index: int) -> list[Doc]:
    parts = content.get("parts")
    found = [camel_keys(part) for part in (as_list(parts) if isinstance(parts, list) else [parts])]
    if unknown := content.keys() - {"role", "parts"}:
        raise Refusal(
            f"Invalid JSON payload received. Unknown name \"{min(unknown)}\" at 'contents[{index}]': Cannot find field."
        )
    if parts in (None, []):
        raise Refusal(f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.")
    for number, part in enumerate(found):
        if not part.keys() - {"thought", "videoMetadata", "partMetadata"}:
            place = f"contents[{index}].parts[{number}].data"
            raise Refusal(f"* GenerateContentRequest.{place}: required oneof field 'data' must have one initialized field")
    return found


def _check_function_responses(calls: list[Doc], results: list[Doc]) -> None:
    if results and not calls:
        raise Refusal("Please ensure that function response turn comes immediately after a function call turn.")
    if len(calls) != len(results):
        raise Refusal(
            "Please ensure that the number of function response parts is equal to the number of function call parts of the "
            "function call turn."
        )
    for result in results:
        if not result.get("name"):
            raise Refusal("* GenerateContentRequest.contents.parts.function_response.name: Name cannot be empty.")
        if not isinstance(result.get("response"), dict):
            raise Refusal(
                "Invalid value at 'contents.parts.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
            )
    ids = {call.get("id") for call in calls}
    if unknown := next((result["id"] for result in results if result.get("id") and result["id"] not in ids), None):
        raise Refusal(f"Function response id '{unknown}' does not match any function call of the function call turn.")


def _check_signatures(turns: list[tuple[str, list[Doc]]], profile: Profile) -> None:
    """Of the turns since the user last said something."""
    start = 0
    for at, (role, parts) in enumerate(turns):
        if role == "user" and any("functionResponse" not in part for part in parts):
            start = at
    for at, (_, parts) in enumerate(turns[start:], start):
        first = next((part for part in parts if "functionCall" in part), None)
        if first is None:
            continue
        name = as_text(camel_keys(first["functionCall"]).get("name"))
        given = as_text(first.get("thoughtSignature")).replace("-", "+").replace("_", "/")  # either alphabet of base64
        if not given:
            raise Refusal(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
                f"correctly. Function call `default_api:{name}`, position {at + 1}."
            )
        if given not in (DUMMY_SIGNATURE, sign_state(profile, name)):
            raise Refusal("Thought signature is not valid.")


# ---- Ollama


def check_ollama(body: Doc, profile: Profile) -> None:
    """Any order is taken; values must have the types of Ollama's own."""
    for message in iter_dicts(body.get("messages")):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            raise Refusal(f'invalid role "{message.get("role")}"')
        _check_go_type(message.get("content", ""), str, "content", "string")
        for call in iter_dicts(message.get("tool_calls")):
            arguments = as_dict(call.get("function")).get("arguments", {})
            _check_go_type(arguments, dict, "tool_calls.function.arguments", "api.ToolCallFunctionArguments")
        for image in as_list(message.get("images")):
            if not re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", as_text(image)) or not image:
                raise Refusal("illegal base64 data at input byte 0")


def _check_go_type(value: Any, type: type, field: str, name: str) -> None:
    if not isinstance(value, type):
        raise Refusal(
            f"json: cannot unmarshal {json_type_name(value).split()[-1]} into Go struct field ChatRequest.messages.{field} of type {name}"  # noqa: E501
        )


HISTORY_CHECKS = {
    spec.OPENAI_CHAT: check_chat,
    spec.OPENAI_RESPONSES: check_responses,
    spec.ANTHROPIC_MESSAGES: check_anthropic,
    spec.GEMINI: check_gemini,
    spec.OLLAMA_CHAT: check_ollama,
}
