"""DATA: the fields of each wire's request, with their types, as the official clients of November 2026 know them."""

from toolglot.wire import spec

__all__ = [
    "BETA_FIELDS",
    "GENERATION_FIELDS",
    "MESSAGE_FIELDS",
    "REQUEST_FIELDS",
    "REQUIRED_FIELDS",
    "STRICT_VENDORS",
    "VENDOR_FIELDS",
]

_CHAT: dict[str, str] = {
    "model": "string",
    "messages": "array",
    "stream": "boolean",
    "stream_options": "object",
    "tools": "array",
    "tool_choice": "string or object",
    "parallel_tool_calls": "boolean",
    "max_tokens": "integer",
    "max_completion_tokens": "integer",
    "temperature": "number",
    "top_p": "number",
    "presence_penalty": "number",
    "frequency_penalty": "number",
    "n": "integer",
    "seed": "integer",
    "stop": "string or array",
    "response_format": "object",
    "reasoning_effort": "string",
    "logit_bias": "object",
    "logprobs": "boolean",
    "top_logprobs": "integer",
    "metadata": "object",
    "modalities": "array",
    "store": "boolean",
    "user": "string",
    **dict.fromkeys(("audio", "prediction", "web_search_options", "moderation", "prompt_cache_options"), "object"),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "verbosity"), "string"),
    "functions": "array",
    "function_call": "string or object",
}
_RESPONSES: dict[str, str] = {
    "model": "string",
    "input": "string or array",
    "instructions": "string or array",
    "stream": "boolean",
    "stream_options": "object",
    "tools": "array",
    "tool_choice": "string or object",
    "parallel_tool_calls": "boolean",
    "max_output_tokens": "integer",
    "max_tool_calls": "integer",
    "temperature": "number",
    "top_p": "number",
    "top_logprobs": "integer",
    "reasoning": "object",
    "text": "object",
    "include": "array",
    "metadata": "object",
    "store": "boolean",
    "background": "boolean",
    "conversation": "string or object",
    "previous_response_id": "string",
    "prompt": "object",
    "context_management": "array",
    "access_programs": "array",
    **dict.fromkeys(("image", "moderation", "prompt_cache_options"), "object"),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier"), "string"),
    **dict.fromkeys(("truncation", "user"), "string"),
}
_ANTHROPIC: dict[str, str] = {
    "model": "string",
    "messages": "array",
    "max_tokens": "integer",
    "system": "string or array",
    "stream": "boolean",
    "tools": "array",
    "tool_choice": "object",
    "temperature": "number",
    "top_p": "number",
    "top_k": "integer",
    "stop_sequences": "array",
    "thinking": "object",
    "output_config": "object",
    "metadata": "object",
    "cache_control": "object",
    "container": "string or object",
    "diagnostics": "object",
    **dict.fromkeys(("inference_geo", "service_tier", "speed", "user_profile_id", "workspace_id"), "string"),
}
_GEMINI: dict[str, str] = {
    "model": "string",
    "contents": "array or object",
    "systemInstruction": "object or string",
    "tools": "array or object",
    "toolConfig": "object",
    "generationConfig": "object",
    "safetySettings": "array",
    "cachedContent": "string",
    "labels": "object",
    "serviceTier": "string",
    "store": "boolean",
    "modelArmorConfig": "object",
    "continuationToken": "string",
}
_OLLAMA: dict[str, str] = {
    "model": "string",
    "messages": "array",
    "stream": "boolean",
    "tools": "array",
    "options": "object",
    "format": "string or object",
    "think": "boolean or string",
    "keep_alive": "string or number",
    "logprobs": "boolean",
    "top_logprobs": "integer",
}
REQUEST_FIELDS = {
    spec.OPENAI_CHAT: _CHAT,
    spec.OPENAI_RESPONSES: _RESPONSES,
    spec.ANTHROPIC_MESSAGES: _ANTHROPIC,
    spec.GEMINI: _GEMINI,
    spec.OLLAMA_CHAT: _OLLAMA,
}
REQUIRED_FIELDS = {
    spec.OPENAI_CHAT: ("model", "messages"),
    spec.OPENAI_RESPONSES: ("model",),
    spec.ANTHROPIC_MESSAGES: ("model", "max_tokens", "messages"),
    spec.GEMINI: ("contents",),
    spec.OLLAMA_CHAT: ("model",),
}
# Anthropic's fields that need a beta header.
BETA_FIELDS = {
    "compaction",
    "context_management",
    "fallback_credit_token",
    "fallbacks",
    "mcp_servers",
    "output_format",
    "thread",
}
# Vendors that refuse what they do not know. Others of Chat Completions, and Ollama, drop it in silence.
STRICT_VENDORS = {
    *("openai-chat", "azure-chat", "azure-dated-chat", "openai-responses", "azure-responses", "azure-dated-responses"),
    *("anthropic", "gemini", "vertex", "mistral", "groq"),
}
# Fields that a vendor knows beyond its wire's, and (with a minus) those that it does not.
VENDOR_FIELDS: dict[str, set[str]] = {
    "mistral": {"random_seed", "safe_prompt", "prompt_mode", "guardrails", "-max_completion_tokens", "-seed", "-logit_bias"},
    "groq": {
        "reasoning_format",
        "include_reasoning",
        "disable_tool_validation",
        "search_settings",
        "compound_custom",
        "documents",
    },
}
# Fields of a message of Chat Completions at OpenAI and Azure.
MESSAGE_FIELDS = {
    *("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call", "annotations"),
    "prompt_cache_breakpoint",
    "parsed",  # the official client sends back what it added
}
GENERATION_FIELDS = {
    *("maxOutputTokens", "temperature", "topP", "topK", "stopSequences", "seed", "presencePenalty", "frequencyPenalty"),
    *("candidateCount", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities", "responseFormat"),
    *("thinkingConfig", "speechConfig", "mediaResolution", "imageConfig", "logprobs", "responseLogprobs", "audioTimestamp"),
    *("routingConfig", "modelSelectionConfig", "enableEnhancedCivicAnswers", "enableAffectiveDialog", "translationConfig"),
    "audioTranscriptionConfig",
}
