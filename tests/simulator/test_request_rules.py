"""Each rule of each provider: a body that is accepted, and one that breaks only this rule and is refused."""

from itertools import product
from typing import Any

import pytest

from toolglot.common.jsontext import dumps
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.simulator.opaque_state import sign_state
from toolglot.values.messages import user
from toolglot.wire.gemini.request_encode import DUMMY_SIGNATURE
from toolglot.wire.json_values import as_dict, as_list
from toolglot.wire.reader import error_from_response

from .client import KEYS, encode_body, error_text, pick_model, post, request_path

Doc = dict[str, Any]

SCHEMA: Doc = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HI: Doc = {"role": "user", "content": "hi"}
OK: Doc = {"role": "assistant", "content": "ok"}


def long(id: str, size: int) -> str:
    return id + "x" * (size - len(id))


# ---- Chat Completions


def chat_tool(name: str = "f", schema: Any = SCHEMA, **options: Any) -> Doc:
    return {"type": "function", "function": {"name": name, "parameters": schema, **options}}


def chat_call(id: str = "call_1", arguments: Any = "{}") -> Doc:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def chat_turn(*calls: Doc, **options: Any) -> Doc:
    return {"role": "assistant", "content": None, "tool_calls": list(calls) or [chat_call()], **options}


def chat_result(id: str = "call_1", content: Any = "done") -> Doc:
    return {"role": "tool", "tool_call_id": id, "content": content}


def chat(*messages: Doc, model: str = "gpt-4o", **options: Any) -> Doc:
    return {"model": model, "messages": list(messages) or [HI], **options}


CHAT_LOOP = chat(HI, chat_turn(), chat_result())
TOOLS: Doc = {"tools": [chat_tool()]}
CLOSED: Doc = {**SCHEMA, "additionalProperties": False}
NINE = "abcDEF123"

# ---- Responses


def call(call_id: str = "call_1", **options: Any) -> Doc:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **options}


def output(id: str = "call_1") -> Doc:
    return {"type": "function_call_output", "call_id": id, "output": "done"}


def responses(*items: Doc, **options: Any) -> Doc:
    return {"model": "gpt-5", "input": list(items) or [HI], **options}


def thought(text: str = "hm", **options: Any) -> Doc:
    cipher = sign_state(resolve_profile("openai-responses", "gpt-5"), "hm")
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": cipher,
        **options,
    }


RESPONSES_LOOP = responses(HI, call(), output())
TOOL: Doc = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
SPACE: Doc = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [TOOL]}

AS_56: Doc = {"model": "gpt-5.6"}


def mark_part(mark: Any) -> Doc:
    part = {"type": "input_text", "text": "hi", "prompt_cache_breakpoint": mark}
    return responses({"role": "user", "content": [part]}, **AS_56)


# ---- Anthropic

CLAUDE = "claude-sonnet-4-5"


def use(id: str = "toolu_1", **options: Any) -> Doc:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}, **options}


def result(id: str = "toolu_1", **options: Any) -> Doc:
    return {"type": "tool_result", "tool_use_id": id, "content": "done", **options}


def says(*blocks: Doc) -> Doc:
    return {"role": "user", "content": list(blocks)}


def turn(*blocks: Doc) -> Doc:
    return {"role": "assistant", "content": list(blocks)}


def claude(*messages: Doc, model: str = CLAUDE, **options: Any) -> Doc:
    return {"model": model, "max_tokens": 2000, "messages": list(messages) or [HI], **options}


def sign(text: str, words: str = "hm", model: str = CLAUDE) -> Doc:
    return {
        "type": "thinking",
        "thinking": text,
        "signature": sign_state(resolve_profile("anthropic", model), words),
    }


TEXT: Doc = {"type": "text", "text": "x"}
CUSTOM: Doc = {"tools": [{"name": "f", "input_schema": SCHEMA}]}
LOOP = claude(HI, turn(use()), says(result()))
BUDGET: Doc = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


# ---- Gemini


def content(*parts: Doc, role: str = "user") -> Doc:
    return {"role": role, "parts": list(parts)}


def reply(*parts: Doc) -> Doc:
    return content(*parts, role="model")


def fcall(name: str = "f", signature: str | None = None, **options: Any) -> Doc:
    return {
        "functionCall": {"name": name, "args": {}, **options},
        **({"thoughtSignature": signature} if signature else {}),
    }


def fresult(name: str = "f", **options: Any) -> Doc:
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **options}}


def gemini(*contents: Doc, **options: Any) -> Doc:
    return {"contents": list(contents) or [ASK], **options}


def config(**fields: Any) -> Doc:
    return gemini(generationConfig=fields)


def declare(**fields: Any) -> Doc:
    return gemini(tools=[{"functionDeclarations": [{"name": "f", "description": "d", **fields}]}])


ASK = content({"text": "hi"})
TWO = reply(fcall("f"), fcall("g"))
GEMINI_LOOP = gemini(ASK, reply(fcall()), content(fresult()))
GEMINI_TWO = gemini(ASK, TWO, content(fresult("f"), fresult("g")))
SIGNED = sign_state(resolve_profile("gemini", "gemini-3-pro-preview"), "f")

# ---- Ollama


def ollama(*messages: Doc, **options: Any) -> Doc:
    return {"model": "qwen3", "messages": list(messages) or [HI], "stream": False, **options}


def ollama_call(arguments: Any) -> Doc:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": arguments}}],
    }


# fmt: off
# profile and model -> (accepted, refused, words of the refusal)
ROWS: dict[str, list[tuple[Doc, Doc, str]]] = {
    "openai-chat gpt-4o": [
        (CHAT_LOOP, chat(HI, chat_turn()), "must be followed by tool messages"),
        (chat(HI, chat_turn(), chat_result(), HI), chat(HI, chat_turn(), HI, chat_result()), "did not have response"),
        (CHAT_LOOP, chat(HI, chat_result()), "must be a response to a preceeding"),
        (CHAT_LOOP, chat(HI, chat_turn(), chat_result(), chat_result()), "preceeding"),
        (chat(HI, chat_turn(chat_call("a"), chat_call("b")), chat_result("b"), chat_result("a")),
         chat(HI, chat_turn(chat_call("a"), chat_call("a")), chat_result("a"), chat_result("a")), "Duplicate value"),
        (chat(HI, chat_turn(chat_call(long("c", 64))), chat_result(long("c", 64))),
         chat(HI, chat_turn(chat_call(long("c", 65))), chat_result(long("c", 65))),
         "maximum length 64, but got a string with length 65"),
        (chat(HI, OK), chat(HI, {"role": "assistant", "content": None}), "expected a string, got null"),
        (chat(HI, OK), chat(HI, {**OK, "tool_calls": []}), "empty array"),
        (chat(HI, OK), chat(HI, {**OK, "role": "model"}), "Invalid value: 'model'"),
        (chat(HI, OK), chat(HI, {**OK, "reasoning_content": "hm"}), "Unknown parameter: "
                                                                    "'messages[1].reasoning_content'"),
        (chat(), {"model": "gpt-4o", "messages": ["hi"]}, "expected an object"),
        (chat(), {"model": "gpt-4o", "messages": "hi"}, "Invalid type for 'messages'"),
        (chat(), {"messages": [HI]}, "must provide a model"),
        (chat(), {"model": "gpt-4o"}, "Missing required parameter: 'messages'"),
        (chat(store=False), chat(stor=False), "Unrecognized request argument supplied: stor"),
        (CHAT_LOOP, chat(HI, chat_turn(chat_call(arguments={})), chat_result()), "expected a string, but got "
                                                                                 "an object"),
        (chat(HI, chat_turn(), chat_result(content=[{"type": "text", "text": "x"}])),
         chat(HI, chat_turn(), chat_result(content=[{"type": "image_url", "image_url": {"url": "data:,"}}])),
         "image_url is only allowed"),
        (chat(**TOOLS), chat(tools=[chat_tool("get weather")]), "string does not match pattern"),
        (chat(tools=[chat_tool(f"f{n}") for n in range(128)]), chat(tools=[chat_tool(f"f{n}") for n in range(129)]),
         "array too long"),
        (chat(**TOOLS), chat(tools=[]), "empty array"),
        (chat(**TOOLS), chat(tools=[chat_tool(schema={**SCHEMA, "anyOf": [{}]})]), "at the top level"),
        (chat(**TOOLS), chat(tools=[chat_tool(schema={"type": "array"})]), "must have type 'object'"),
        (chat(tools=[chat_tool(schema={"type": "object", "properties": {"x": {"type": "array", "items": {}}}})]),
         chat(tools=[chat_tool(schema={"type": "object", "properties": {"x": {"type": "array"}}})]),
         "array schema missing items"),
        (chat(tools=[chat_tool(schema=CLOSED, strict=True)]), chat(tools=[chat_tool(strict=True)]),
         "'additionalProperties' is required"),
        (chat(tools=[chat_tool(schema=CLOSED, strict=True)]),
         chat(tools=[chat_tool(schema={**CLOSED, "required": []}, strict=True)]), "Missing 'city'"),
        (chat(parallel_tool_calls=False, **TOOLS), chat(parallel_tool_calls=False), "only allowed when 'tools'"),
        (chat(tool_choice={"type": "function", "function": {"name": "f"}}, **TOOLS),
         chat(tool_choice={"type": "function", "function": {"name": "g"}}, **TOOLS), "Tool choice 'g' not found"),
        (chat(max_tokens=9), chat(max_tokens=9, max_completion_tokens=9), "at the same time"),
        (chat(), chat(reasoning_effort="low"), "'reasoning_effort' is not supported with this model"),
        (chat(temperature=2), chat(temperature=2.1), "Expected a value <= 2"),
        (chat(temperature=0), chat(temperature="0"), "Invalid type for 'temperature'"),
        (chat(stop=["a"] * 4), chat(stop=["a"] * 5), "array too long"),
        (chat(stream=True, stream_options={"include_usage": True}), chat(stream_options={"include_usage": True}),
         "only allowed when 'stream'"),
        (chat({**HI, "content": "As JSON."}, response_format={"type": "json_object"}),
         chat(response_format={"type": "json_object"}), "must contain the word 'json'"),
    ],
    "azure-chat gpt-4.1": [
        (chat(HI, chat_turn(chat_call(long("c", 40))), chat_result(long("c", 40))),
         chat(HI, chat_turn(chat_call(long("c", 41))), chat_result(long("c", 41))), "maximum length 40"),
    ],
    "mistral mistral-large": [
        (chat(HI, chat_turn(chat_call(NINE), content=""), chat_result(NINE)), chat(HI, chat_turn(content=""), chat_result()),
         "must be a-z, A-Z, 0-9, with a length of 9"),
        (chat(HI, chat_turn(chat_call(NINE)), chat_result(NINE), OK, HI),
         chat(HI, chat_turn(chat_call(NINE)), chat_result(NINE), HI), "Unexpected role 'user' after role "
                                                                      "'tool'"),
    ],
    "mistral m": [
        (chat(max_tokens=9), chat(max_completion_tokens=9), "Extra inputs are not permitted"),
        (chat(random_seed=9), chat(seed=9), "extra_forbidden"),
    ],
    "deepseek deepseek-v4-pro": [
        (chat(HI, chat_turn(reasoning_content=""), chat_result()), CHAT_LOOP,
         "The `reasoning_content` in the thinking mode must be passed back"),
    ],
    "deepseek m": [
        (chat(tool_choice="auto", **TOOLS), chat(tool_choice="required", **TOOLS), "does not support this "
                                                                                   "tool_choice"),
        (chat(response_format={"type": "json_object"}),
         chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}),
         "This response_format type is unavailable"),
    ],
    "groq m": [
        (chat(reasoning_format="hidden"), chat(thinking={}), "property 'thinking' is unsupported"),
    ],
    "xai grok-4.6": [
        (chat(tool_choice="required", **TOOLS),
         chat(tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [chat_tool()]}}, **TOOLS),
         "tool_choice"),
        (chat(temperature=0.5), chat(presence_penalty=0.5), "Argument not supported: presence_penalty"),
        (chat(model="grok-4.6", reasoning_effort="low"), chat(model="grok-4.6", reasoning_effort="none"),
         "does not support 'none'"),
    ],
    "openai-chat gpt-5": [
        (chat(temperature=1, model="gpt-5"), chat(temperature=0.5, model="gpt-5"), "Unsupported parameter: "
                                                                                   "'temperature'"),
        (chat(max_completion_tokens=9, model="gpt-5"), chat(max_tokens=9, model="gpt-5"),
         "Use 'max_completion_tokens' instead"),
    ],
    "copilot gpt-4.1": [
        (chat(max_completion_tokens=9), chat(max_tokens=9), "Bad Request"),
    ],
    "openai-chat gpt-5.5": [
        (chat(model="gpt-5.5", reasoning_effort="none", **TOOLS), chat(model="gpt-5.5", **TOOLS), "use /v1/responses"),
    ],
    "openai-chat gpt-5.4": [
        (chat(model="gpt-5.4", **TOOLS), chat(model="gpt-5.4", reasoning_effort="low", **TOOLS),
         "Function tools with reasoning_effort are not supported for gpt-5.4"),
    ],
    "openai-chat o1-mini": [
        (chat(HI, model="o1-mini"), chat({"role": "system", "content": "x"}, HI, model="o1-mini"), "does not support 'system'"),
    ],
    "openai-responses gpt-5": [
        (RESPONSES_LOOP, responses(HI, call()), "No tool output found for function call call_1"),
        (RESPONSES_LOOP, responses(HI, output()), "No tool call found for function call output"),
        (responses(HI, call(long("c", 64)), output(long("c", 64))), responses(HI, call(long("c", 65)), output(long("c", 65))),
         "maximum length 64"),
        (responses(HI, call(id="fc_1"), output()), responses(HI, call(id="call_1"), output()), "begins with 'fc'"),
        (responses(HI, thought(), call(), output()), responses(HI, thought(), HI), "without its required "
                                                                                   "following item"),
        (responses(HI, thought(), call(), output()), responses(HI, thought("changed"), call(), output()),
         "could not be verified"),
        (responses(HI, thought(), OK), responses(HI, thought(), thought(), OK), "Duplicate item found"),
        (responses(HI, thought(id="rs_resp_000001r_0"), call(id="fc_resp_000001r_1"), output()),
         responses(HI, call(id="fc_resp_000001r_1"), output()), "without its required 'reasoning' item"),
        (responses(HI, thought(), OK, store=False), responses(HI, thought(encrypted_content=None), OK, store=False),
         "not persisted"),
        (RESPONSES_LOOP, responses(HI, call(arguments={}), output()), "expected a string"),
        (responses(), {"model": "gpt-5"}, "must be provided"),
        (responses(), {"model": "gpt-5", "messages": [HI]}, "has moved to 'input'"),
        (responses(user="u"), responses(users="u"), "Unknown parameter: 'users'"),
        (responses({"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}, HI),
         responses({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}, HI),
         "Supported values are: 'output_text'"),
        (responses(HI), responses({**HI, "role": "tool"}), "Invalid value: 'tool'"),
        (responses(tools=[TOOL]), responses(tools=[{**TOOL, "name": "a b"}]), "does not match pattern"),
        (responses(tools=[TOOL]), responses(tools=[{**TOOL, "strict": True}]), "'additionalProperties' is "
                                                                               "required"),
        (responses(tools=[TOOL]), responses(tools=[{**TOOL, "parameters": {"oneOf": []}}]), "at the top level"),
        (responses(tools=[TOOL], tool_choice="required"), responses(tool_choice="required"), "only allowed when 'tools'"),
        (responses(tools=[SPACE], tool_choice={"type": "function", "name": "crm.f"}),
         responses(tools=[SPACE], tool_choice={"type": "function", "name": "f"}), "Tool choice 'f' not found"),
        (responses(max_output_tokens=16), responses(max_output_tokens=15), "Expected a value >= 16"),
        (responses(reasoning={"effort": "low"}), responses(reasoning={"effort": "max"}), "does not support 'max'"),
        (responses(), responses(temperature=0.2), "'temperature' is not supported"),
        (responses(), responses(previous_response_id="resp_0"), "Previous response with id 'resp_0' not "
                                                                "found"),
        (responses({**HI, "content": "json"}, text={"format": {"type": "json_object"}}),
         responses(text={"format": {"type": "json_object"}}), "the word 'json'"),
    ],
    "openai-responses gpt-5.6": [
        (responses(**AS_56, prompt_cache_options={"ttl": "12h", "mode": "implicit"}),
         responses(**AS_56, prompt_cache_options={"ttl": "7h"}), "Invalid value: '7h'. Supported values are: "
                                                                 "'30m', '12h'."),
        (mark_part({"mode": "explicit", "ttl": "12h"}), mark_part({"mode": "bogus"}), "Supported values are: "
                                                                                      "'explicit'."),
        (mark_part({"mode": "explicit"}), mark_part({"ttl": "12h"}),
         "Missing required parameter: 'input[0].content[0].prompt_cache_breakpoint.mode'"),
        (mark_part(None), mark_part(True), "expected an object"),
    ],
    "openai-chat gpt-5.6": [
        (chat(model="gpt-5.6", prompt_cache_options={"ttl": "30m"}), chat(model="gpt-5.6", prompt_cache_options={"ttl": "12h"}),
         "Supported values are: '30m'."),
    ],
    "anthropic claude-sonnet-4-5": [
        (LOOP, claude(HI, turn(use()), HI),
         "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1"),
        (LOOP, claude(HI, turn(use())), "`tool_use` ids were found without"),
        (LOOP, claude(HI, says(result())), "unexpected `tool_use_id` found in `tool_result` blocks"),
        (claude(HI, turn(use()), says(result(), TEXT)), claude(HI, turn(use()), says(TEXT, result())),
         "`tool_use` ids were found without"),
        (claude(HI, turn(TEXT, use()), says(result())), claude(HI, turn(use(), TEXT), says(result())),
         "`tool_use` ids were found without"),
        (LOOP, claude(HI, turn(use()), says(result(), result())), "Found multiple `tool_result` blocks"),
        (LOOP, claude(HI, turn(use(), use()), says(result())), "`tool_use` ids must be unique"),
        (LOOP, claude(HI, turn(use("a.b")), says(result("a.b"))), "String should match pattern"),
        (LOOP, claude(HI, turn(use(input="{}")), says(result())), "Input should be a valid dictionary"),
        (LOOP, claude(HI, turn(use()), says(result(content="", is_error=True))), "content cannot be empty"),
        (claude(), claude({"role": "system", "content": "x"}, HI), "role 'system' is not supported"),
        (claude(), claude({**HI, "content": ""}), "non-empty content"),
        (claude(), claude(says({"type": "text", "text": " "})), "text content blocks must be non-empty"),
        (claude(), claude(says({"text": "x"})), "Field required"),
        (claude(), {"model": CLAUDE, "messages": [HI]}, "max_tokens: Field required"),
        (claude(), {"model": CLAUDE, "max_tokens": 9, "messages": []}, "at least one message is required"),
        (claude(), {**claude(), "max_tokens": 0}, "greater than or equal to 1"),
        (claude(), {**claude(), "max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
        (claude(metadata={}), claude(user="u"), "user: Extra inputs are not permitted"),
        (claude(), claude({**HI, "name": "n"}), "messages.0.name: Extra inputs"),
        (claude(HI, {**OK, "content": "I begin"}), claude(HI, {**OK, "content": "I begin "}), "trailing whitespace"),
        (claude(HI, turn(sign("hm"), use()), says(result())), claude(HI, turn(sign("changed"), use()), says(result())),
         "Invalid `signature` in `thinking` block"),
        (claude(HI, turn(sign("hm"), use()), says(result())),
         claude(HI, turn(sign("hm", model="claude-opus-5"), use()), says(result())), "Invalid `signature`"),
        (claude(HI, turn(sign("hm"), use()), says(result()), **BUDGET), claude(HI, turn(use()), says(result()), **BUDGET),
         "Expected `thinking` or `redacted_thinking`, but found `tool_use`"),
        (claude(**BUDGET), claude(thinking={"type": "enabled", "budget_tokens": 1023}), "greater than or equal to 1024"),
        (claude(**BUDGET), claude(thinking={"type": "enabled", "budget_tokens": 2000}),
         "must be greater than `thinking.budget_tokens`"),
        (claude(**BUDGET, **CUSTOM), claude(tool_choice={"type": "any"}, **BUDGET, **CUSTOM),
         "Thinking may not be enabled when tool_choice"),
        (claude(temperature=1, **BUDGET), claude(temperature=0.5, **BUDGET), "may only be set to 1"),
        (claude(model="claude-sonnet-5", tool_choice={"type": "any"}, **CUSTOM),
         claude(model="claude-sonnet-5-5", tool_choice={"type": "any"}, **CUSTOM), "tool_choice"),
        (claude(temperature=0.5), claude(temperature=0.5, model="claude-sonnet-5"), "`temperature` is deprecated"),
        (claude(temperature=0.5), claude(temperature=0.5, top_p=0.5), "cannot both be specified"),
        (claude(temperature=1), claude(temperature=1.1), "range: 0..1"),
        (claude(model="claude-opus-4-5", output_config={"effort": "high"}),
         claude(model="claude-opus-4-5", output_config={"effort": "max"}), "does not support effort level "
                                                                           "'max'"),
        (claude(**CUSTOM), claude(tools=CUSTOM["tools"] * 2), "Tool names must be unique"),
        (claude(**CUSTOM), claude(tools=[{"name": "a b", "input_schema": SCHEMA}]),
         "tools.0.custom.name: String should match pattern"),
        (claude(**CUSTOM), claude(tools=[{"name": "f", "input_schema": {"anyOf": [], **SCHEMA}}]), "at the top level"),
        (claude(**CUSTOM), claude(tools=[{"name": "f", "input_schema": {}}]), "Field required"),
        (claude(**CUSTOM), claude(tools=[{"name": "f"}]), "input_schema: Field required"),
        (claude(**CUSTOM), claude(tools=[{"name": "f", "input_schema": {"type": "object", "properties": {"a b": {}}}}]),
         "Property keys should match"),
        (claude(tool_choice={"type": "auto"}, **CUSTOM), claude(tool_choice={"type": "auto"}), "while providing tools"),
        (claude(tool_choice={"type": "tool", "name": "f"}, **CUSTOM),
         claude(tool_choice={"type": "tool", "name": "g"}, **CUSTOM), "Tool 'g' not found"),
        (claude(says(*({**TEXT, "cache_control": {"type": "ephemeral"}} for _ in range(4)))),
         claude(says(*({**TEXT, "cache_control": {"type": "ephemeral"}} for _ in range(5)))),
         "A maximum of 4 blocks with cache_control"),
        (claude(cache_control={"type": "ephemeral", "ttl": "1h"}), claude(cache_control={"type": "ephemeral", "ttl": "2h"}),
         "cache_control.ephemeral.ttl: Input should be '5m' or '1h'"),
        (claude(says({**TEXT, "cache_control": {"type": "ephemeral", "ttl": "5m"}})),
         claude(says({**TEXT, "cache_control": {"type": "nope"}})), "messages.0.content.0.cache_control: "
                                                                    "Input tag 'nope'"),
        (claude(HI, turn(use(input={"cache_control": "no"})), says(result())),
         claude(HI, turn(use(cache_control={"type": "no"})), says(result())), "messages.1.content.0.cache_control"),
    ],
    "anthropic claude-sonnet-5": [
        (claude(HI, OK, HI, model="claude-sonnet-5"), claude(HI, OK, model="claude-sonnet-5"),
         "does not support assistant message prefill"),
    ],
    "anthropic claude-opus-5": [
        (claude(model="claude-opus-5", thinking={"type": "adaptive"}), claude(model="claude-opus-5", **BUDGET),
         "is not supported for this model"),
    ],
    "gemini gemini-2.5-flash": [
        (GEMINI_TWO, gemini(ASK, TWO, content(fresult("f"))), "the number of function response parts is "
                                                              "equal"),
        (GEMINI_TWO, gemini(ASK, TWO, ASK), "the number of function response parts is equal"),
        (GEMINI_TWO, gemini(ASK, TWO), "the number of function response parts is equal"),
        (gemini(ASK), gemini(ASK, content(fresult())), "function response turn comes immediately after a "
                                                       "function call turn"),
        (GEMINI_LOOP, gemini(reply(fcall()), content(fresult())), "function call turn comes immediately "
                                                                  "after a user turn"),
        (gemini(ASK, reply(fcall(id="1")), content(fresult(id="1"))),
         gemini(ASK, reply(fcall(id="1")), content(fresult(id="2"))), "does not match any function call"),
        (GEMINI_LOOP, gemini(ASK, reply(fcall()), content(fresult(name=""))), "Name cannot be empty"),
        (GEMINI_LOOP, gemini(ASK, reply(fcall()), content(fresult(response="x"))), "google.protobuf.Struct"),
        (gemini(), {}, "contents is not specified"),
        (gemini(), gemini(content({"text": "x"}, role="assistant")), "Please use a valid role"),
        (gemini(), gemini(content()), "parts must not be empty"),
        (gemini(), gemini(content({})), "required oneof field 'data'"),
        ({"contents": ASK, "system_instruction": {"parts": []}}, gemini(messages=[]), 'Unknown name "messages"'),
        (gemini(), gemini({**ASK, "content": "x"}), "at 'contents[0]'"),
        (config(topK=3), config(top_kk=3), "at 'generation_config'"),
        (config(temperature=2), config(temperature=2.5), "in the range [0.0, 2.0]"),
        (config(stopSequences=["a"] * 5), config(stopSequences=["a"] * 6), "array too long"),
        (config(responseSchema={}, responseMimeType="application/json"), config(responseSchema={}),
         "only allowed when mime_type"),
        (declare(parameters={"type": "OBJECT", "properties": {"x": {"type": "STRING"}}}),
         declare(parameters={"type": "OBJECT", "properties": {"x": {"const": 1}}}), 'Unknown name "const"'),
        (declare(parametersJsonSchema=SCHEMA), declare(parametersJsonSchema=SCHEMA, parameters={"type": "OBJECT"}),
         "exclude each other"),
        (declare(parametersJsonSchema=SCHEMA), declare(parametersJsonSchema={"type": "array"}), "must be OBJECT"),
        (declare(), declare(name="1f"), "Invalid function name"),
        (declare(), gemini(tools=[{"functionDeclaration": {"name": "f"}}]), 'Unknown name '
                                                                            '"functionDeclaration"'),
        (declare(), gemini(tools=[{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]),
         "Duplicate function declaration"),
        (declare() | {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
         gemini(toolConfig={"functionCallingConfig": {"mode": "ANY"}}), "without function_declarations"),
        (declare() | {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}},
         declare() | {"toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}},
         "ANY or VALIDATED"),
    ],
    "gemini gemini-3-pro-preview": [
        (gemini(ASK, reply(fcall(signature=DUMMY_SIGNATURE), fcall()), content(fresult(), fresult())),
         gemini(ASK, reply(fcall(), fcall()), content(fresult(), fresult())), "Function call is missing a "
                                                                              "thought_signature"),
        (gemini(ASK, reply(fcall(signature=SIGNED)), content(fresult())),
         gemini(ASK, reply(fcall(signature="Zm9yZWlnbg==")), content(fresult())), "signature is not valid"),
        (gemini(ASK, reply(fcall()), content(fresult()), ASK), GEMINI_LOOP, "thought_signature"),
        (config(thinkingConfig={"thinkingLevel": "LOW"}), config(thinkingConfig={"thinkingLevel": "LOW", "thinkingBudget": 9}),
         "only one of thinking budget"),
    ],
    "vertex gemini-3-pro-preview": [
        (gemini(ASK, reply(fcall(signature=DUMMY_SIGNATURE)), content(fresult())),
         gemini(ASK, reply(fcall(signature=SIGNED)), content(fresult())), "signature is not valid"),
    ],
    "ollama qwen3": [
        (ollama(HI, ollama_call({})), ollama(HI, ollama_call("{}")), "cannot unmarshal string into Go struct "
                                                                     "field"),
        (ollama(), ollama({**HI, "content": [TEXT]}), "cannot unmarshal array"),
        (ollama(), {"messages": [HI]}, "model is required"),
        (ollama(), ollama({**HI, "role": "developer"}), "invalid role"),
        (ollama({**HI, "images": ["aGk="]}), ollama({**HI, "images": ["data:image/png;base64,aGk="]}), "illegal base64"),
        (ollama(think="low"), ollama(think="extreme"), "invalid think value"),
        (ollama(format="json"), ollama(format="yaml"), "invalid format"),
        (ollama(options={"temperature": 1}), ollama(options={"temperature": "1"}), "must be of type float32"),
        (ollama(tools=[chat_tool()], unknown=1), ollama(tools=[chat_tool(schema={"properties": []})]), "parameters.properties"),
        (ollama(), ollama(stream="no"), "of type boolean"),
    ],
}
# fmt: on


CASES = [(target, *row) for target, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize(
    ("target", "accepted", "refused", "words"), CASES, ids=[f"{case[0]}: {case[3][:60]}" for case in CASES]
)
def test_rule(target: str, accepted: Doc, refused: Doc, words: str) -> None:
    profile = resolve_profile(*target.split())
    good, bad = post(Simulator(), profile, accepted), post(Simulator(), profile, refused)
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
    empty = (
        Simulator()
        .handle("POST", path, {**version, **{name: "" for name in KEYS if "version" not in name}}, body)
        .status
    )
    assert empty == bare
    name = {"bearer": "Authorization", "optional": "Authorization"}.get(target.auth, target.auth)
    headers = {**version, name: "Bearer k" if name == "Authorization" else "k"}
    assert Simulator().handle("POST", path, headers, body).status == 200


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_bodies_that_are_not_json_objects(profile: str) -> None:
    target = resolve_profile(profile, pick_model(profile))
    for body in (b"", b"{", b"[]", b'"x"', b"\xff"):
        assert post(Simulator(), target, body).status == 400


def test_too_large() -> None:
    assert post(Simulator(), resolve_profile("anthropic", CLAUDE), b" " * 32_000_001).status == 413


@pytest.mark.parametrize("target", ROWS)
def test_junk_is_refused_without_a_crash(target: str) -> None:
    """Whatever stands where an object, a list or a text is expected, the answer is a refusal and no crash."""
    junk: list[Any] = [None, 1, "x", [], {}, [None], [[]], [{}], {"x": None}, True]
    profile = resolve_profile(target.split()[0], pick_model(target.split()[0]))
    for accepted, refused, _ in ROWS[target]:
        for body, value in product((accepted, refused), junk):
            for key in body:
                first, *others = as_list(body[key]) or [None]
                for change in (value, *([{**first, field: value}, *others] for field in as_dict(first))):
                    assert post(Simulator(), profile, {**body, key: change}).status in (200, 400, 404, 422)
