"""Why a reply ended, in the words of all wires: compatible servers use those of other wires, in any case."""

from typing import Any

from toolglot.values.messages import StopReason

_WORDS: dict[StopReason, tuple[Any, ...]] = {
    # numbers: Gemini's protobuf
    "end": ("stop", "end_turn", "stop_sequence", "eos", "finish_reason_unspecified", 1),
    "tools": ("tool_calls", "tool_call", "tool_use", "function_call"),
    "length": (
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "model_context_window_exceeded",
        2,
    ),
    "filtered": (
        *(
            "content_filter",
            "content_filtered",
            "sensitive",
            "safety",
            "recitation",
            "language",
            "blocklist",
            3,
            4,
        ),
        *("prohibited_content", "spii", "image_safety", "image_prohibited_content", "image_recitation"),
    ),
    "refusal": ("refusal",),
    "pause": ("pause_turn", "compaction", "continuation"),  # to be sent back unchanged; nothing is to be run
    "error": (
        *("error", "network_error", "insufficient_system_resource"),  # OpenRouter and Mistral, GLM, DeepSeek
        *(
            "other",
            "malformed_function_call",
            "unexpected_tool_call",
            "too_many_tool_calls",
            "malformed_response",
        ),
        *("missing_thought_signature", "no_image", "image_other", 5, 10),
    ),
}
_REASONS: dict[Any, StopReason] = {word: reason for reason, words in _WORDS.items() for word in words}


def decode_stop_reason(word: Any) -> StopReason | None:
    """Return what a wire's word for the end means; None if no wire has it.

    Raises TypeError if it is not a word.
    """
    return _REASONS.get(word.lower() if isinstance(word, str) else word)
