"""Each rule of each provider: a body that is taken, and one that differs only in the rule and is refused in its words."""

from typing import Any

import pytest

from toolglot.jsontext import dumps
from toolglot.messages import user
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.simulator.opaque_state import sign_state
from toolglot.wire.gemini.request_encode import DUMMY_SIGNATURE
from toolglot.wire.json_values import as_dict, as_list
from toolglot.wire.reader import error_from_response

from .client import KEYS, encode_body, error_text, pick_model, post, request_path

Doc = dict[str, Any]
Row = tuple[str, str, Any, Any, str]  # profile, model, taken, refused, words of the refusal

SCHEMA: Doc = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HI: Doc = {"role": "user", "content": "hi"}
OK: Doc = {"role": "assistant", "content": "ok"}


def long(id: str, size: int) -> str:
    return id + "x" * (size - len(id))


# ---- Chat Completions


def chat_tool(name: str = "f", schema: Any = SCHEMA, **more: Any) -> Doc:
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def chat_call(id: str = "call_1", arguments: Any = "{}") -> Doc:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def chat_turn(*calls: Doc, **more: Any) -> Doc:
    return {"role": "assistant", "content": None, "tool_calls": list(calls) or [chat_call()], **more}


def chat_result(id: str = "call_1", content: Any = "done") -> Doc:
    return {"role": "tool", "tool_call_id": id, "content": content}


def chat(*messages: Doc, model: str = "gpt-4o", **more: Any) -> Doc:
    return {"model": model, "messages": list(messages) or [HI], **more}


TOOLS: Doc = {"tools": [chat_tool()]}
CLOSED: Doc = {**SCHEMA, "additionalProperties": False}
NINE = "abcDEF123"
# fmt: off
CHAT: list[Row] = [
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(), chat_result()), chat(HI, chat_turn()), "must be followed by tool messages"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(), chat_result(), HI), chat(HI, chat_turn(), HI, chat_result()),
        "did not have response"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(), chat_result()), chat(HI, chat_result()),
        "must be a response to a preceeding"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(), chat_result()), chat(HI, chat_turn(), chat_result(), chat_result()),
        "preceeding"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(chat_call("a"), chat_call("b")), chat_result("b"), chat_result("a")),
        chat(HI, chat_turn(chat_call("a"), chat_call("a")), chat_result("a"), chat_result("a")), "Duplicate value"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(chat_call(long("c", 64))), chat_result(long("c", 64))),
        chat(HI, chat_turn(chat_call(long("c", 65))), chat_result(long("c", 65))),
        "maximum length 64, but got a string with length 65"),
    ("azure-chat", "gpt-4.1", chat(HI, chat_turn(chat_call(long("c", 40))), chat_result(long("c", 40))),
        chat(HI, chat_turn(chat_call(long("c", 41))), chat_result(long("c", 41))), "maximum length 40"),
    ("mistral", "mistral-large", chat(HI, chat_turn(chat_call(NINE), content=""), chat_result(NINE)),
        chat(HI, chat_turn(content=""), chat_result()), "must be a-z, A-Z, 0-9, with a length of 9"),
    ("mistral", "mistral-large", chat(HI, chat_turn(chat_call(NINE)), chat_result(NINE), OK, HI),
        chat(HI, chat_turn(chat_call(NINE)), chat_result(NINE), HI), "Unexpected role 'user' after role 'tool'"),
    ("mistral", "m", chat(max_tokens=9), chat(max_completion_tokens=9), "Extra inputs are not permitted"),
    ("mistral", "m", chat(random_seed=9), chat(seed=9), "extra_forbidden"),
    ("deepseek", "deepseek-v4-pro", chat(HI, chat_turn(reasoning_content=""), chat_result()),
        chat(HI, chat_turn(), chat_result()), "The `reasoning_content` in the thinking mode must be passed back"),
    ("deepseek", "m", chat(tool_choice="auto", **TOOLS), chat(tool_choice="required", **TOOLS),
        "does not support this tool_choice"),
    ("deepseek", "m", chat(response_format={"type": "json_object"}),
        chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}),
        "This response_format type is unavailable"),
    ("openai-chat", "gpt-4o", chat(HI, OK), chat(HI, {"role": "assistant", "content": None}), "expected a string, got null"),
    ("openai-chat", "gpt-4o", chat(HI, OK), chat(HI, {**OK, "tool_calls": []}), "empty array"),
    ("openai-chat", "gpt-4o", chat(HI, OK), chat(HI, {**OK, "role": "model"}), "Invalid value: 'model'"),
    ("openai-chat", "gpt-4o", chat(HI, OK), chat(HI, {**OK, "reasoning_content": "hm"}),
        "Unknown parameter: 'messages[1].reasoning_content'"),
    ("openai-chat", "gpt-4o", chat(), {"model": "gpt-4o", "messages": ["hi"]}, "expected an object"),
    ("openai-chat", "gpt-4o", chat(), {"model": "gpt-4o", "messages": "hi"}, "Invalid type for 'messages'"),
    ("openai-chat", "gpt-4o", chat(), {"messages": [HI]}, "must provide a model"),
    ("openai-chat", "gpt-4o", chat(), {"model": "gpt-4o"}, "Missing required parameter: 'messages'"),
    ("openai-chat", "gpt-4o", chat(store=False), chat(stor=False), "Unrecognized request argument supplied: stor"),
    ("groq", "m", chat(reasoning_format="hidden"), chat(thinking={}), "property 'thinking' is unsupported"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(), chat_result()), chat(HI, chat_turn(chat_call(arguments={})), chat_result()),
        "expected a string, but got an object"),
    ("openai-chat", "gpt-4o", chat(HI, chat_turn(), chat_result(content=[{"type": "text", "text": "x"}])),
        chat(HI, chat_turn(), chat_result(content=[{"type": "image_url", "image_url": {"url": "data:,"}}])),
        "image_url is only allowed"),
    ("openai-chat", "gpt-4o", chat(**TOOLS), chat(tools=[chat_tool("get weather")]), "string does not match pattern"),
    ("openai-chat", "gpt-4o", chat(tools=[chat_tool(f"f{n}") for n in range(128)]),
        chat(tools=[chat_tool(f"f{n}") for n in range(129)]), "array too long"),
    ("openai-chat", "gpt-4o", chat(**TOOLS), chat(tools=[]), "empty array"),
    ("openai-chat", "gpt-4o", chat(**TOOLS), chat(tools=[chat_tool(schema={**SCHEMA, "anyOf": [{}]})]), "at the top level"),
    ("openai-chat", "gpt-4o", chat(**TOOLS), chat(tools=[chat_tool(schema={"type": "array"})]), "must have type 'object'"),
    ("openai-chat", "gpt-4o",
        chat(tools=[chat_tool(schema={"type": "object", "properties": {"x": {"type": "array", "items": {}}}})]),
        chat(tools=[chat_tool(schema={"type": "object", "properties": {"x": {"type": "array"}}})]),
        "array schema missing items"),
    ("openai-chat", "gpt-4o", chat(tools=[chat_tool(schema=CLOSED, strict=True)]), chat(tools=[chat_tool(strict=True)]),
        "'additionalProperties' is required"),
    ("openai-chat", "gpt-4o", chat(tools=[chat_tool(schema=CLOSED, strict=True)]),
        chat(tools=[chat_tool(schema={**CLOSED, "required": []}, strict=True)]), "Missing 'city'"),
    ("openai-chat", "gpt-4o", chat(parallel_tool_calls=False, **TOOLS), chat(parallel_tool_calls=False),
        "only allowed when 'tools'"),
    ("openai-chat", "gpt-4o", chat(tool_choice={"type": "function", "function": {"name": "f"}}, **TOOLS),
        chat(tool_choice={"type": "function", "function": {"name": "g"}}, **TOOLS), "Tool choice 'g' not found"),
    ("xai", "grok-4.6", chat(tool_choice="required", **TOOLS),
        chat(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [chat_tool()]}}, **TOOLS),
        "tool_choice"),
    ("xai", "grok-4.6", chat(temperature=0.5), chat(presence_penalty=0.5), "Argument not supported: presence_penalty"),
    ("xai", "grok-4.6", chat(model="grok-4.6", reasoning_effort="low"), chat(model="grok-4.6", reasoning_effort="none"),
        "does not support 'none'"),
    ("openai-chat", "gpt-5", chat(temperature=1, model="gpt-5"), chat(temperature=0.5, model="gpt-5"),
        "Unsupported parameter: 'temperature'"),
    ("openai-chat", "gpt-5", chat(max_completion_tokens=9, model="gpt-5"), chat(max_tokens=9, model="gpt-5"),
        "Use 'max_completion_tokens' instead"),
    ("copilot", "gpt-4.1", chat(max_completion_tokens=9), chat(max_tokens=9), "Bad Request"),
    ("openai-chat", "gpt-4o", chat(max_tokens=9), chat(max_tokens=9, max_completion_tokens=9), "at the same time"),
    ("openai-chat", "gpt-4o", chat(), chat(reasoning_effort="low"), "'reasoning_effort' is not supported with this model"),
    ("openai-chat", "gpt-5.5", chat(model="gpt-5.5", reasoning_effort="none", **TOOLS), chat(model="gpt-5.5", **TOOLS),
        "use /v1/responses"),
    ("openai-chat", "gpt-5.4", chat(model="gpt-5.4", **TOOLS), chat(model="gpt-5.4", reasoning_effort="low", **TOOLS),
        "Function tools with reasoning_effort are not supported for gpt-5.4"),
    ("openai-chat", "gpt-4o", chat(temperature=2), chat(temperature=2.1), "Expected a value <= 2"),
    ("openai-chat", "gpt-4o", chat(temperature=0), chat(temperature="0"), "Invalid type for 'temperature'"),
    ("openai-chat", "gpt-4o", chat(stop=["a"] * 4), chat(stop=["a"] * 5), "array too long"),
    ("openai-chat", "gpt-4o", chat(stream=True, stream_options={"include_usage": True}),
        chat(stream_options={"include_usage": True}), "only allowed when 'stream'"),
    ("openai-chat", "gpt-4o", chat({**HI, "content": "As JSON."}, response_format={"type": "json_object"}),
        chat(response_format={"type": "json_object"}), "must contain the word 'json'"),
    ("openai-chat", "o1-mini", chat(HI, model="o1-mini"), chat({"role": "system", "content": "x"}, HI, model="o1-mini"),
        "does not support 'system'"),
]
# fmt: on

# ---- Responses


def call(call_id: str = "call_1", **more: Any) -> Doc:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def output(id: str = "call_1") -> Doc:
    return {"type": "function_call_output", "call_id": id, "output": "done"}


def responses(*items: Doc, **more: Any) -> Doc:
    return {"model": "gpt-5", "input": list(items) or [HI], **more}


def thought(text: str = "hm", **more: Any) -> Doc:
    cipher = sign_state(resolve_profile("openai-responses", "gpt-5"), "hm")
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": cipher,
        **more,
    }


TOOL: Doc = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
# fmt: off
RESPONSES: list[Row] = [
    ("openai-responses", "gpt-5", responses(HI, call(), output()), responses(HI, call()),
        "No tool output found for function call call_1"),
    ("openai-responses", "gpt-5", responses(HI, call(), output()), responses(HI, output()),
        "No tool call found for function call output"),
    ("openai-responses", "gpt-5", responses(HI, call(long("c", 64)), output(long("c", 64))),
        responses(HI, call(long("c", 65)), output(long("c", 65))), "maximum length 64"),
    ("openai-responses", "gpt-5", responses(HI, call(id="fc_1"), output()), responses(HI, call(id="call_1"), output()),
        "begins with 'fc'"),
    ("openai-responses", "gpt-5", responses(HI, thought(), call(), output()), responses(HI, thought(), HI),
        "without its required following item"),
    ("openai-responses", "gpt-5", responses(HI, thought(), call(), output()),
        responses(HI, thought("changed"), call(), output()), "could not be verified"),
    ("openai-responses", "gpt-5", responses(HI, thought(), OK), responses(HI, thought(), thought(), OK),
        "Duplicate item found"),
    ("openai-responses", "gpt-5", responses(HI, thought(id="rs_resp_000001r_0"), call(id="fc_resp_000001r_1"), output()),
        responses(HI, call(id="fc_resp_000001r_1"), output()), "without its required 'reasoning' item"),
    ("openai-responses", "gpt-5", responses(HI, thought(), OK, store=False),
        responses(HI, thought(encrypted_content=None), OK, store=False), "not persisted"),
    ("openai-responses", "gpt-5", responses(HI, call(), output()), responses(HI, call(arguments={}), output()),
        "expected a string"),
    ("openai-responses", "gpt-5", responses(), {"model": "gpt-5"}, "must be provided"),
    ("openai-responses", "gpt-5", responses(), {"model": "gpt-5", "messages": [HI]}, "has moved to 'input'"),
    ("openai-responses", "gpt-5", responses(user="u"), responses(users="u"), "Unknown parameter: 'users'"),
    ("openai-responses", "gpt-5", responses({"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, HI),
        responses({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, HI),
        "Supported values are: 'output_text'"),
    ("openai-responses", "gpt-5", responses(HI), responses({**HI, "role": "tool"}), "Invalid value: 'tool'"),
    ("openai-responses", "gpt-5", responses(tools=[TOOL]), responses(tools=[{**TOOL, "name": "a b"}]),
        "does not match pattern"),
    ("openai-responses", "gpt-5", responses(tools=[TOOL]), responses(tools=[{**TOOL, "strict": True}]),
        "'additionalProperties' is required"),
    ("openai-responses", "gpt-5", responses(tools=[TOOL]), responses(tools=[{**TOOL, "parameters": {"oneOf": []}}]),
        "at the top level"),
    ("openai-responses", "gpt-5", responses(tools=[TOOL], tool_choice="required"), responses(tool_choice="required"),
        "only allowed when 'tools'"),
    ("openai-responses", "gpt-5", responses(max_output_tokens=16), responses(max_output_tokens=15), "Expected a value >= 16"),
    ("openai-responses", "gpt-5", responses(reasoning={"effort": "low"}), responses(reasoning={"effort": "max"}),
        "does not support 'max'"),
    ("openai-responses", "gpt-5", responses(), responses(temperature=0.2), "'temperature' is not supported"),
    ("openai-responses", "gpt-5", responses(), responses(previous_response_id="resp_0"),
        "Previous response with id 'resp_0' not found"),
    ("openai-responses", "gpt-5", responses({**HI, "content": "json"}, text={"format": {"type": "json_object"}}),
        responses(text={"format": {"type": "json_object"}}), "the word 'json'"),
]
# fmt: on

# ---- Anthropic

CLAUDE = "claude-sonnet-4-5"


def use(id: str = "toolu_1", **more: Any) -> Doc:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}, **more}


def result(id: str = "toolu_1", **more: Any) -> Doc:
    return {"type": "tool_result", "tool_use_id": id, "content": "done", **more}


def says(*blocks: Doc, role: str = "user") -> Doc:
    return {"role": role, "content": list(blocks)}


def claude(*messages: Doc, model: str = CLAUDE, **more: Any) -> Doc:
    return {"model": model, "max_tokens": 2000, "messages": list(messages) or [HI], **more}


def signed(text: str, words: str = "hm", model: str = CLAUDE) -> Doc:
    return {"type": "thinking", "thinking": text, "signature": sign_state(resolve_profile("anthropic", model), words)}


TEXT: Doc = {"type": "text", "text": "x"}
CUSTOM: Doc = {"tools": [{"name": "f", "input_schema": SCHEMA}]}
LOOP = claude(HI, says(use(), role="assistant"), says(result()))
BUDGET: Doc = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def claude_row(taken: Doc, refused: Doc, words: str, model: str = CLAUDE) -> Row:
    return ("anthropic", model, taken, refused, words)


ANTHROPIC: list[Row] = [
    claude_row(
        LOOP,
        claude(HI, says(use(), role="assistant"), HI),
        "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
    ),
    claude_row(LOOP, claude(HI, says(use(), role="assistant")), "`tool_use` ids were found without"),
    claude_row(LOOP, claude(HI, says(result())), "unexpected `tool_use_id` found in `tool_result` blocks"),
    claude_row(
        claude(HI, says(use(), role="assistant"), says(result(), TEXT)),
        claude(HI, says(use(), role="assistant"), says(TEXT, result())),
        "`tool_use` ids were found without",
    ),
    claude_row(
        claude(HI, says(TEXT, use(), role="assistant"), says(result())),
        claude(HI, says(use(), TEXT, role="assistant"), says(result())),
        "`tool_use` ids were found without",
    ),
    claude_row(
        LOOP, claude(HI, says(use(), role="assistant"), says(result(), result())), "Found multiple `tool_result` blocks"
    ),
    claude_row(LOOP, claude(HI, says(use(), use(), role="assistant"), says(result())), "`tool_use` ids must be unique"),
    claude_row(LOOP, claude(HI, says(use("a.b"), role="assistant"), says(result("a.b"))), "String should match pattern"),
    claude_row(LOOP, claude(HI, says(use(input="{}"), role="assistant"), says(result())), "Input should be a valid dictionary"),
    claude_row(
        LOOP, claude(HI, says(use(), role="assistant"), says(result(content="", is_error=True))), "content cannot be empty"
    ),
    claude_row(claude(), claude({"role": "system", "content": "x"}, HI), "role 'system' is not supported"),
    claude_row(claude(), claude({**HI, "content": ""}), "non-empty content"),
    claude_row(claude(), claude(says({"type": "text", "text": " "})), "text content blocks must be non-empty"),
    claude_row(claude(), claude(says({"text": "x"})), "Field required"),
    claude_row(claude(), {"model": CLAUDE, "messages": [HI]}, "max_tokens: Field required"),
    claude_row(claude(), {"model": CLAUDE, "max_tokens": 9, "messages": []}, "at least one message is required"),
    claude_row(claude(), {**claude(), "max_tokens": 0}, "greater than or equal to 1"),
    claude_row(claude(), {**claude(), "max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
    claude_row(claude(metadata={}), claude(user="u"), "user: Extra inputs are not permitted"),
    claude_row(claude(), claude({**HI, "name": "n"}), "messages.0.name: Extra inputs"),
    claude_row(claude(HI, {**OK, "content": "I begin"}), claude(HI, {**OK, "content": "I begin "}), "trailing whitespace"),
    claude_row(
        claude(HI, OK, HI, model="claude-sonnet-5"),
        claude(HI, OK, model="claude-sonnet-5"),
        "does not support assistant message prefill",
        "claude-sonnet-5",
    ),
    claude_row(
        claude(HI, says(signed("hm"), use(), role="assistant"), says(result())),
        claude(HI, says(signed("changed"), use(), role="assistant"), says(result())),
        "Invalid `signature` in `thinking` block",
    ),
    claude_row(
        claude(HI, says(signed("hm"), use(), role="assistant"), says(result())),
        claude(HI, says(signed("hm", model="claude-opus-5"), use(), role="assistant"), says(result())),
        "Invalid `signature`",
    ),
    claude_row(
        claude(HI, says(signed("hm"), use(), role="assistant"), says(result()), **BUDGET),
        claude(HI, says(use(), role="assistant"), says(result()), **BUDGET),
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    ),
    claude_row(claude(**BUDGET), claude(thinking={"type": "enabled", "budget_tokens": 1023}), "greater than or equal to 1024"),
    claude_row(
        claude(**BUDGET),
        claude(thinking={"type": "enabled", "budget_tokens": 2000}),
        "must be greater than `thinking.budget_tokens`",
    ),
    claude_row(
        claude(**BUDGET, **CUSTOM),
        claude(tool_choice={"type": "any"}, **BUDGET, **CUSTOM),
        "Thinking may not be enabled when tool_choice",
    ),
    claude_row(claude(temperature=1, **BUDGET), claude(temperature=0.5, **BUDGET), "may only be set to 1"),
    claude_row(
        claude(model="claude-opus-5", thinking={"type": "adaptive"}),
        claude(model="claude-opus-5", **BUDGET),
        "is not supported for this model",
        "claude-opus-5",
    ),
    claude_row(
        claude(model="claude-sonnet-5", tool_choice={"type": "any"}, **CUSTOM),
        claude(model="claude-sonnet-5-5", tool_choice={"type": "any"}, **CUSTOM),
        "tool_choice",
    ),
    claude_row(claude(temperature=0.5), claude(temperature=0.5, model="claude-sonnet-5"), "`temperature` is deprecated"),
    claude_row(claude(temperature=0.5), claude(temperature=0.5, top_p=0.5), "cannot both be specified"),
    claude_row(claude(temperature=1), claude(temperature=1.1), "range: 0..1"),
    claude_row(
        claude(model="claude-opus-4-5", output_config={"effort": "high"}),
        claude(model="claude-opus-4-5", output_config={"effort": "max"}),
        "does not support effort level 'max'",
    ),
    claude_row(claude(**CUSTOM), claude(tools=CUSTOM["tools"] * 2), "Tool names must be unique"),
    claude_row(
        claude(**CUSTOM),
        claude(tools=[{"name": "a b", "input_schema": SCHEMA}]),
        "tools.0.custom.name: String should match pattern",
    ),
    claude_row(claude(**CUSTOM), claude(tools=[{"name": "f", "input_schema": {"anyOf": [], **SCHEMA}}]), "at the top level"),
    claude_row(claude(**CUSTOM), claude(tools=[{"name": "f", "input_schema": {}}]), "Field required"),
    claude_row(claude(**CUSTOM), claude(tools=[{"name": "f"}]), "input_schema: Field required"),
    claude_row(
        claude(**CUSTOM),
        claude(tools=[{"name": "f", "input_schema": {"type": "object", "properties": {"a b": {}}}}]),
        "Property keys should match",
    ),
    claude_row(claude(tool_choice={"type": "auto"}, **CUSTOM), claude(tool_choice={"type": "auto"}), "while providing tools"),
    claude_row(
        claude(tool_choice={"type": "tool", "name": "f"}, **CUSTOM),
        claude(tool_choice={"type": "tool", "name": "g"}, **CUSTOM),
        "Tool 'g' not found",
    ),
    claude_row(
        claude(says(*({**TEXT, "cache_control": {"type": "ephemeral"}} for _ in range(4)))),
        claude(says(*({**TEXT, "cache_control": {"type": "ephemeral"}} for _ in range(5)))),
        "A maximum of 4 blocks with cache_control",
    ),
]

# ---- Gemini

G2, G3 = "gemini-2.5-flash", "gemini-3-pro-preview"


def content(*parts: Doc, role: str = "user") -> Doc:
    return {"role": role, "parts": list(parts)}


def fcall(name: str = "f", signature: str | None = None, **more: Any) -> Doc:
    return {"functionCall": {"name": name, "args": {}, **more}, **({"thoughtSignature": signature} if signature else {})}


def fresult(name: str = "f", **more: Any) -> Doc:
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **more}}


def gemini(*contents: Doc, **more: Any) -> Doc:
    return {"contents": list(contents) or [ASK], **more}


def config(**fields: Any) -> Doc:
    return gemini(generationConfig=fields)


def declared(**fields: Any) -> Doc:
    return gemini(tools=[{"functionDeclarations": [{"name": "f", "description": "d", **fields}]}])


ASK = content({"text": "hi"})
TWO = content(fcall("f"), fcall("g"), role="model")
SIGNED = sign_state(resolve_profile("gemini", G3), "f")
# fmt: off
GEMINI: list[Row] = [
    ("gemini", G2, gemini(ASK, TWO, content(fresult("f"), fresult("g"))), gemini(ASK, TWO, content(fresult("f"))),
        "the number of function response parts is equal"),
    ("gemini", G2, gemini(ASK, TWO, content(fresult("f"), fresult("g"))), gemini(ASK, TWO, ASK),
        "the number of function response parts is equal"),
    ("gemini", G2, gemini(ASK, TWO, content(fresult("f"), fresult("g"))), gemini(ASK, TWO),
        "the number of function response parts is equal"),
    ("gemini", G2, gemini(ASK), gemini(ASK, content(fresult())),
        "function response turn comes immediately after a function call turn"),
    ("gemini", G2, gemini(ASK, content(fcall(), role="model"), content(fresult())),
        gemini(content(fcall(), role="model"), content(fresult())), "function call turn comes immediately after a user turn"),
    ("gemini", G3, gemini(ASK, content(fcall(signature=DUMMY_SIGNATURE), fcall(), role="model"), content(fresult(), fresult())),
        gemini(ASK, content(fcall(), fcall(), role="model"), content(fresult(), fresult())),
        "Function call is missing a thought_signature"),
    ("gemini", G3, gemini(ASK, content(fcall(signature=SIGNED), role="model"), content(fresult())),
        gemini(ASK, content(fcall(signature="Zm9yZWlnbg=="), role="model"), content(fresult())), "signature is not valid"),
    ("vertex", G3, gemini(ASK, content(fcall(signature=DUMMY_SIGNATURE), role="model"), content(fresult())),
        gemini(ASK, content(fcall(signature=SIGNED), role="model"), content(fresult())), "signature is not valid"),
    ("gemini", G3, gemini(ASK, content(fcall(), role="model"), content(fresult()), ASK),
        gemini(ASK, content(fcall(), role="model"), content(fresult())), "thought_signature"),
    ("gemini", G2, gemini(ASK, content(fcall(id="1"), role="model"), content(fresult(id="1"))),
        gemini(ASK, content(fcall(id="1"), role="model"), content(fresult(id="2"))), "does not match any function call"),
    ("gemini", G2, gemini(ASK, content(fcall(), role="model"), content(fresult())),
        gemini(ASK, content(fcall(), role="model"), content(fresult(name=""))), "Name cannot be empty"),
    ("gemini", G2, gemini(ASK, content(fcall(), role="model"), content(fresult())),
        gemini(ASK, content(fcall(), role="model"), content(fresult(response="x"))), "google.protobuf.Struct"),
    ("gemini", G2, gemini(), {}, "contents is not specified"),
    ("gemini", G2, gemini(), gemini(content({"text": "x"}, role="assistant")), "Please use a valid role"),
    ("gemini", G2, gemini(), gemini(content()), "parts must not be empty"),
    ("gemini", G2, gemini(), gemini(content({})), "required oneof field 'data'"),
    ("gemini", G2, {"contents": ASK, "system_instruction": {"parts": []}}, gemini(messages=[]), 'Unknown name "messages"'),
    ("gemini", G2, gemini(), gemini({**ASK, "content": "x"}), "at 'contents[0]'"),
    ("gemini", G2, config(topK=3), config(top_kk=3), "at 'generation_config'"),
    ("gemini", G2, config(temperature=2), config(temperature=2.5), "in the range [0.0, 2.0]"),
    ("gemini", G2, config(stopSequences=["a"] * 5), config(stopSequences=["a"] * 6), "array too long"),
    ("gemini", G2, config(responseSchema={}, responseMimeType="application/json"), config(responseSchema={}),
        "only allowed when mime_type"),
    ("gemini", G3, config(thinkingConfig={"thinkingLevel": "LOW"}),
        config(thinkingConfig={"thinkingLevel": "LOW", "thinkingBudget": 9}), "only one of thinking budget"),
    ("gemini", G2, declared(parameters={"type": "OBJECT", "properties": {"x": {"type": "STRING"}}}),
        declared(parameters={"type": "OBJECT", "properties": {"x": {"const": 1}}}), 'Unknown name "const"'),
    ("gemini", G2, declared(parametersJsonSchema=SCHEMA), declared(parametersJsonSchema=SCHEMA, parameters={"type": "OBJECT"}),
        "exclude each other"),
    ("gemini", G2, declared(parametersJsonSchema=SCHEMA), declared(parametersJsonSchema={"type": "array"}), "must be OBJECT"),
    ("gemini", G2, declared(), declared(name="1f"), "Invalid function name"),
    ("gemini", G2, declared(), gemini(tools=[{"functionDeclaration": {"name": "f"}}]), 'Unknown name "functionDeclaration"'),
    ("gemini", G2, declared(), gemini(tools=[{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]),
        "Duplicate function declaration"),
    ("gemini", G2, declared() | {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        gemini(toolConfig={"functionCallingConfig": {"mode": "ANY"}}), "without function_declarations"),
    ("gemini", G2, declared() | {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}},
        declared() | {"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}},
        "ANY or VALIDATED"),
]
# fmt: on

# ---- Ollama


def ollama(*messages: Doc, **more: Any) -> Doc:
    return {"model": "qwen3", "messages": list(messages) or [HI], "stream": False, **more}


def ollama_call(arguments: Any) -> Doc:
    return {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}


# fmt: off
OLLAMA: list[Row] = [
    ("ollama", "qwen3", ollama(HI, ollama_call({})), ollama(HI, ollama_call("{}")),
        "cannot unmarshal string into Go struct field"),
    ("ollama", "qwen3", ollama(), ollama({**HI, "content": [TEXT]}), "cannot unmarshal array"),
    ("ollama", "qwen3", ollama(), {"messages": [HI]}, "model is required"),
    ("ollama", "qwen3", ollama(), ollama({**HI, "role": "developer"}), "invalid role"),
    ("ollama", "qwen3", ollama({**HI, "images": ["aGk="]}), ollama({**HI, "images": ["data:image/png;base64,aGk="]}),
        "illegal base64"),
    ("ollama", "qwen3", ollama(think="low"), ollama(think="extreme"), "invalid think value"),
    ("ollama", "qwen3", ollama(format="json"), ollama(format="yaml"), "invalid format"),
    ("ollama", "qwen3", ollama(options={"temperature": 1}), ollama(options={"temperature": "1"}), "must be of type float32"),
    ("ollama", "qwen3", ollama(tools=[chat_tool()], unknown=1), ollama(tools=[chat_tool(schema={"properties": []})]),
        "parameters.properties"),
    ("ollama", "qwen3", ollama(), ollama(stream="no"), "of type boolean"),
]
# fmt: on
ROWS = [*CHAT, *RESPONSES, *ANTHROPIC, *GEMINI, *OLLAMA]


@pytest.mark.parametrize(("profile", "model", "taken", "refused", "words"), ROWS, ids=[f"{r[0]}: {r[4][:60]}" for r in ROWS])
def test_rule(profile: str, model: str, taken: Doc, refused: Doc, words: str) -> None:
    target = resolve_profile(profile, model)
    good, bad = post(Simulator(), target, taken), post(Simulator(), target, refused)
    assert good.status == 200, good.body
    assert bad.status == (422 if "extra_forbidden" in error_text(bad) else 400)
    assert words in error_text(bad)
    assert not error_from_response(bad.status, bad.body).retryable


def test_the_newest_anthropic_version_refuses_sampling() -> None:
    target, body = resolve_profile("anthropic", CLAUDE), claude(temperature=1)
    assert post(Simulator(), target, body).status == 200
    answer = post(Simulator(), target, body, headers={"anthropic-version": "2026-10-21"})
    assert "temperature: Extra inputs are not permitted" in error_text(answer)
    assert post(Simulator(), target, claude(mcp_servers=[]), headers={"anthropic-beta": "mcp"}).status == 200


@pytest.mark.parametrize("profile", PROFILES)
def test_keys(profile: str) -> None:
    target = resolve_profile(profile, pick_model(profile))
    body, path = dumps(encode_body(target, [user("hi")])), request_path(target)
    version = {"Anthropic-Version": "2023-06-01"}
    bare = Simulator().handle("POST", path, version, body).status
    assert bare == (200 if target.auth == "optional" else 403 if profile == "gemini" else 401)
    empty = Simulator().handle("POST", path, {**version, **{name: "" for name in KEYS if "version" not in name}}, body).status
    assert empty == bare
    name = {"bearer": "Authorization", "optional": "Authorization"}.get(target.auth, target.auth)
    given = {**version, name: "Bearer k" if name == "Authorization" else "k"}
    assert Simulator().handle("POST", path, given, body).status == 200


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_bodies_that_are_not_json_objects(profile: str) -> None:
    target = resolve_profile(profile, pick_model(profile))
    for body in (b"", b"{", b"[]", b'"x"', b"\xff"):
        assert post(Simulator(), target, body).status == 400


def test_only_named_models_exist() -> None:
    simulator = Simulator(models=["gpt-4o"])
    assert post(simulator, resolve_profile("openai-chat", "gpt-4o"), chat()).status == 200
    answer = post(simulator, resolve_profile("openai-chat", "gpt-4"), chat(model="gpt-4"))
    assert (answer.status, "does not exist" in error_text(answer)) == (404, True)


def test_too_large() -> None:
    assert post(Simulator(), resolve_profile("anthropic", CLAUDE), b" " * 32_000_001).status == 413


def test_junk_is_refused_without_a_crash() -> None:
    """Whatever stands where an object, a list or a text is expected, the answer is a refusal and no crash."""
    junk: list[Any] = [None, 1, "x", [], {}, [None], [[]], [{}], {"x": None}, True]
    for profile, _, taken, refused, _ in ROWS:
        target = resolve_profile(profile, pick_model(profile))
        for body in (taken, refused):
            for key in body:
                for value in junk:
                    assert post(Simulator(), target, {**body, key: value}).status in (200, 400, 404, 422)
                first, *others = as_list(body[key]) or [None]
                for field in as_dict(first):
                    for value in junk:
                        changed = {**body, key: [{**first, field: value}, *others]}
                        assert post(Simulator(), target, changed).status in (200, 400, 404, 422)
