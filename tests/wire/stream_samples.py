"""Self-written streams of every wire: rich ones to mutate, and the frames of large ones."""

import json
from typing import Any

from reply_reading import Doc, lines_of, sse_of

from toolglot.wire.framing import encode_aws_event


def chunk(delta: Any, reason: Any = None, **top: Any) -> Doc:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **top}


def tool(index: int, arguments: Any, **fields: Any) -> Doc:
    return chunk(
        {"tool_calls": [{"index": index, "function": {"arguments": arguments, **fields}, "id": fields and f"id{index}"}]}
    )


def item(index: int, step: str, **fields: Any) -> Doc:
    return {"type": f"response.output_item.{step}", "output_index": index, "item": {"id": f"i{index}", **fields}}


def delta(kind: str, index: int, **fields: Any) -> Doc:
    return {"type": f"response.{kind}.delta", "output_index": index, "content_index": 0, "delta": "x", **fields}


def block(step: str, index: int, **fields: Any) -> Doc:
    return {"type": f"content_block_{step}", "index": index, **fields}


def part(*parts: Doc, **candidate: Any) -> Doc:
    content = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}
    return {"candidates": [content], "modelVersion": "m", "responseId": "r", "usageMetadata": {"promptTokenCount": 3}}


def line(done: bool = False, **message: Any) -> Doc:
    return {"model": "m", "message": {"role": "assistant", "content": "x", **message}, "done": done, "done_reason": "stop"}


CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"a":1}'}
MESSAGE: Doc = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]}
STREAMS: dict[str, list[list[Doc]]] = {
    "openai-chat": [
        [
            {"id": "", "model": "", "choices": [], "prompt_filter_results": []},
            chunk({"role": "assistant", "reasoning_content": "hm", "content": None}),
            tool(0, "", name="f"),
            tool(0, '{"a":'),
            tool(1, {"b": 1}, name="g"),
            tool(0, "1}"),
            chunk({}, "tool_calls"),
            {"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}},
        ],
        [
            chunk(
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}, {"type": "text", "text": "x"}]}
            ),
            chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "h"}], "annotations": [{"a": 1}]}),
            chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "m"}], "annotations": [{"a": 2}]}),
            chunk({"images": [{"image_url": {"url": "data:image/png;base64,AA"}}], "audio": {"id": "a"}, "refusal": "no"}),
            chunk({"function_call": {"name": "f", "arguments": "{}"}}),
            chunk({"tool_calls": [{"index": 0, "id": "a", "custom": {"name": "sql", "input": "1"}}]}),
            chunk({}, "stop", x_groq={"usage": {"prompt_tokens": 1}}),
        ],
    ],
    "openai-responses": [
        [
            {"type": "response.created", "response": {"id": "r", "model": "m"}},
            item(0, "added", type="reasoning", summary=[]),
            delta("reasoning_summary_text", 0, summary_index=0),
            item(0, "done", type="reasoning", summary=[{"type": "summary_text", "text": "x"}], encrypted_content="c"),
            delta("output_text", 1),
            item(1, "done", **MESSAGE),
            item(2, "added", **CALL),
            delta("function_call_arguments", 2),
            item(2, "done", **CALL),
            {
                "type": "response.completed",
                "response": {"status": "completed", "output": [{"id": "i2", **CALL}], "usage": {"input_tokens": 1}},
            },
        ],
        [
            item(0, "added", type="custom_tool_call", call_id="a", name="p", input=""),
            delta("custom_tool_call_input", 0),
            item(0, "done", type="custom_tool_call", call_id="a", name="p", input="x"),
            item(1, "done", type="shell_call", call_id="b", action={"commands": ["ls"]}),
            item(2, "added", type="web_search_call", status="in_progress"),
            delta("refusal", 3),
            {
                "type": "response.incomplete",
                "response": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}, "output": [MESSAGE]},
            },
        ],
    ],
    "anthropic-messages": [
        [
            {"type": "message_start", "message": {"id": "a", "model": "m", "content": [], "usage": {"input_tokens": 1}}},
            block("start", 0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
            block("delta", 0, delta={"type": "thinking_delta", "thinking": "hm"}),
            block("delta", 0, delta={"type": "signature_delta", "signature": "s"}),
            block("stop", 0),
            block("start", 1, content_block={"type": "text", "text": "", "citations": []}),
            block("delta", 1, delta={"type": "text_delta", "text": "x"}),
            block("delta", 1, delta={"type": "citations_delta", "citation": {"cited_text": "x"}}),
            block("start", 2, content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}}),
            block("delta", 2, delta={"type": "input_json_delta", "partial_json": '{"a":1}'}),
            block("stop", 2),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "container": {"id": "c"}},
                "usage": {"output_tokens": 2},
            },
            {"type": "message_stop"},
        ],
        [
            {
                "type": "message_start",
                "message": {"id": "a", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
            },
            block("start", 1, content_block={"type": "redacted_thinking", "data": "c"}),
            block("start", 2, content_block={"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            block("delta", 2, delta={"type": "input_json_delta", "partial_json": '{"q":1}'}),
            block("stop", 2),
            block("start", 3, content_block={"type": "compaction", "content": ""}),
            block("delta", 3, delta={"type": "compaction_delta", "content": "x"}),
            {"type": "message_stop"},
        ],
    ],
    "gemini": [
        [
            part({"text": "h", "thought": True}),
            part({"text": "x"}, {"text": "y", "thoughtSignature": "s"}),
            part({"functionCall": {"name": "f", "args": {"a": 1}, "id": "i"}, "thoughtSignature": "s"}),
            part({"functionCall": {"name": "g", "willContinue": True}}),
            part({"functionCall": {"partialArgs": [{"jsonPath": "$.a[0].b", "stringValue": "x"}], "willContinue": True}}),
            part({"functionCall": {"partialArgs": [{"jsonPath": "$['c']", "numberValue": 1}]}}),
            part({"inlineData": {"mimeType": "image/png", "data": "AA"}}, {"executableCode": {"code": "1"}}),
            part({"text": ""}, finishReason="STOP", groundingMetadata={"a": 1}, citationMetadata={"b": 1}),
        ],
        [part({"text": "x"}), {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}],
    ],
    "ollama-chat": [
        [
            line(thinking="hm"),
            line(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": {"a": 1}}}]),
            line(tool_calls=[{"function": {"name": "g", "arguments": {}}}], images=["AA"], mood=1),
            line(True) | {"prompt_eval_count": 1, "eval_count": 2},
        ],
    ],
}


def framed(wire: str, *docs: Doc) -> bytes:
    return lines_of(*docs) if wire == "ollama-chat" else sse_of(*docs)


def in_aws(wire: str, doc: Doc) -> bytes:
    return encode_aws_event(json.dumps(doc).encode())
