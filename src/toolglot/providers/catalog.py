"""DATA: one row a vendor, then what depends on the model as ordered patterns. Every limit and fact has a source and a date.

A new OpenAI-like vendor is one row here and no code anywhere else.
"""

import re
from functools import lru_cache
from typing import Any

import msgspec

from toolglot.errors import UnknownName
from toolglot.providers.profile import ANY_CHOICE, ANY_MEDIA, HistoryRules, Price, Profile, ProviderLimits, ToolFeatures
from toolglot.providers.windows import find_vendor, find_window

__all__ = ["ALIASES", "PROFILES", "Fact", "resolve_profile"]

NO_SUBSET = ANY_CHOICE - {"subset"}

_OPENAI_LIMITS = ProviderLimits(
    tools=128,
    stops=4,
    call_id_length=64,
    call_id=r"[^\0]{1,64}",
    source="OpenAI's OpenAPI document 2026-08 and refusals on record",
)
_OPENAI_FEATURES = ToolFeatures(freeform=True)
# A stream says what it cost only where it is asked to.
_USAGE = {"stream_options": {"include_usage": True}}
_COMPATIBLE_FEATURES = ToolFeatures(choices=NO_SUBSET, strict=False)

_ROWS = (
    Profile(
        id="openai-chat",
        title="OpenAI Chat Completions",
        wire="openai-chat",
        base_url="https://api.openai.com/v1",
        path="/chat/completions",
        models_path="/models",
        key_env=("OPENAI_API_KEY",),
        base_env=("OPENAI_BASE_URL",),
        stream_defaults=_USAGE,
        limits=_OPENAI_LIMITS,
        features=_OPENAI_FEATURES,
        dialect="OPENAI",
        strict_dialect="OPENAI_STRICT",
        max_tokens="max_completion_tokens",
        media=frozenset({"image", "file"}),
        reasoning_echo="no",
        notes=(
            "Tool results are text: images follow in a user message.",
            "Models from gpt-5.4 on take function tools only on Responses.",
        ),
    ),
    Profile(
        id="openai-responses",
        title="OpenAI Responses",
        wire="openai-responses",
        base_url="https://api.openai.com/v1",
        path="/responses",
        models_path="/models",
        key_env=("OPENAI_API_KEY",),
        base_env=("OPENAI_BASE_URL",),
        defaults={"store": False, "include": ["reasoning.encrypted_content"]},
        limits=_OPENAI_LIMITS,
        features=ToolFeatures(freeform=True, namespaces=True, hosted=True, result_media=frozenset({"image", "file"})),
        history=HistoryRules(needs_turn=True),
        dialect="OPENAI",
        strict_dialect="OPENAI_STRICT",
        max_tokens="max_output_tokens",
        options=frozenset({"temperature", "top_p"}),
        media=frozenset({"image", "file"}),
        notes=("Reasoning items go back next to what they produced, whole and in order.",),
    ),
    Profile(
        id="anthropic",
        title="Anthropic Messages",
        wire="anthropic-messages",
        base_url="https://api.anthropic.com",
        path="/v1/messages",
        models_path="/v1/models",
        auth="x-api-key",
        key_env=("ANTHROPIC_API_KEY",),
        token_env=("ANTHROPIC_AUTH_TOKEN",),
        base_env=("ANTHROPIC_BASE_URL",),
        headers={"anthropic-version": "2023-06-01"},
        limits=ProviderLimits(
            name=r"[a-zA-Z0-9_-]{1,128}",
            name_length=128,
            call_id=r"[a-zA-Z0-9_-]+",
            cache_marks=4,
            request_bytes=32_000_000,
            source="anthropic SDK 2.8.0 and refusals on record",
        ),
        features=ToolFeatures(
            choices=NO_SUBSET,
            hosted=True,
            error_flag=True,
            result_media=frozenset({"image", "file"}),
        ),
        history=HistoryRules(calls_last=True, starts_with_user=True, no_blank_text=True, needs_turn=True, plain_prefill=True),
        dialect="ANTHROPIC",
        strict_dialect="ANTHROPIC_STRICT",
        default_max_tokens=4096,
        options=frozenset({"temperature", "top_p", "top_k", "stop"}),
        max_temperature=1.0,
        thinking_budget=True,
        media=frozenset({"image", "file"}),
        state="model",
        notes=(
            "All results of one turn come first in the next user message.",
            "Thinking goes back unchanged, signature and all; on 5.x models it is bound to the exact prefix.",
        ),
    ),
    Profile(
        id="gemini",
        title="Google Gemini (Developer API)",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com",
        path="/v1beta/models/{model}:generateContent",
        models_path="/v1beta/models",
        stream_path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
        auth="x-goog-api-key",
        key_env=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        base_env=("GOOGLE_GEMINI_BASE_URL",),
        limits=ProviderLimits(
            tools=512,
            stops=5,
            name=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
            source="Google's v1beta protos 2026-08, google-genai 3.1.0",
        ),
        features=ToolFeatures(parallel_off=False, streamed_arguments=False, hosted=True, error_flag=True),
        history=HistoryRules(starts_with_user=True, needs_turn=True),
        dialect="GEMINI",
        options=frozenset({"temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}),
        media=ANY_MEDIA,
        call_ids=False,
        thinking_budget=True,
        state="model",
        notes=(
            "Roles are user and model; results go in a user content of their own.",
            "As many functionResponse parts as functionCall parts, in order.",
        ),
    ),
    Profile(
        id="ollama",
        title="Ollama",
        wire="ollama-chat",
        base_url="http://127.0.0.1:11434",
        path="/api/chat",
        models_path="/api/tags",
        auth="optional",
        key_env=("OLLAMA_API_KEY",),
        base_env=("OLLAMA_HOST",),
        limits=ProviderLimits(name=r"(?s:.+)", name_length=10_000, call_id=r"(?s:.+)", source="Ollama's api/types.go 2026-08"),
        features=ToolFeatures(choices=frozenset({"auto"}), parallel_off=False, streamed_arguments=False, strict=False),
        dialect="OLLAMA",
        options=frozenset({"temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}),
        efforts=("none", "low", "medium", "high", "max"),
        result_name=True,
        notes=("No tool_choice: none leaves the tools out, a subset filters them.",),
    ),
    Profile(
        id="openrouter",
        title="OpenRouter",
        wire="openai-chat",
        base_url="https://openrouter.ai/api/v1",
        path="/chat/completions",
        models_path="/models",
        key_env=("OPENROUTER_API_KEY",),
        stream_defaults=_USAGE,
        limits=ProviderLimits(call_id=r"[^\0]{1,40}", call_id_length=40, source="openrouter SDK 1.3.84"),
        features=ToolFeatures(choices=NO_SUBSET, hosted=True),
        options=frozenset({"temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}),
        efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        media=frozenset({"image", "file", "audio"}),
        state="model",
        notes=("reasoning_details go back verbatim, to the same upstream model only.",),
    ),
    Profile(
        id="copilot",
        title="GitHub Copilot",
        wire="openai-chat",
        base_url="https://api.githubcopilot.com",
        path="/chat/completions",
        models_path="/models",
        key_env=("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"),
        sign_in="copilot",
        base_env=("GITHUB_COPILOT_BASE_URL", "COPILOT_API_URL", "GITHUB_COPILOT_API_BASE"),
        headers={"Editor-Version": "vscode/1.110.0", "Copilot-Integration-Id": "vscode-chat"},
        stream_defaults=_USAGE,
        limits=ProviderLimits(tools=128, call_id=r"[^\0]{1,40}", call_id_length=40, source="VS Code's Copilot client 2026-03"),
        features=_COMPATIBLE_FEATURES,
        max_tokens="max_completion_tokens",
        notes=("max_tokens is refused with a bare 400.", "Deltas may lack a reliable index: calls are keyed by id."),
    ),
    Profile(
        id="xai",
        title="xAI Grok",
        wire="openai-chat",
        base_url="https://api.x.ai/v1",
        path="/chat/completions",
        models_path="/models",
        key_env=("XAI_API_KEY",),
        base_env=("XAI_API_BASE",),
        stream_defaults=_USAGE,
        limits=ProviderLimits(tools=1000, source="xAI's API reference 2026"),
        features=ToolFeatures(choices=NO_SUBSET, strict=False, streamed_arguments=False),
        options=frozenset({"temperature", "top_p", "seed"}),
        efforts=("none", "low", "medium", "high"),
        notes=("Calls come whole.", "An error may be a plain string."),
    ),
    Profile(
        id="deepseek",
        title="DeepSeek",
        wire="openai-chat",
        base_url="https://api.deepseek.com",
        path="/chat/completions",
        models_path="/models",
        key_env=("DEEPSEEK_API_KEY",),
        stream_defaults=_USAGE,
        limits=ProviderLimits(tools=128, source="DeepSeek's API reference 2026"),
        features=ToolFeatures(choices=frozenset({"auto", "none"}), strict=False, parallel_off=False),
        media=frozenset(),
        efforts=("low", "high", "max"),
        json_output="object",
        reasoning_echo="required",
        empty_content="empty",
        notes=("Thinking is on by default: every turn that called tools is sent back with its reasoning_content.",),
    ),
    Profile(
        id="mistral",
        title="Mistral",
        wire="openai-chat",
        base_url="https://api.mistral.ai/v1",
        path="/chat/completions",
        models_path="/models",
        key_env=("MISTRAL_API_KEY",),
        limits=ProviderLimits(call_id=r"[a-zA-Z0-9]{9}", call_id_length=9, source="mistralai SDK 3.7.0 and refusals on record"),
        features=ToolFeatures(choices=NO_SUBSET - {"none"}, strict=False, streamed_arguments=False),
        options=frozenset({"temperature", "top_p", "stop", "presence_penalty", "frequency_penalty"}),  # `seed` is refused
        history=HistoryRules(filler_after_results=True),
        empty_content="empty",
        result_name=True,
        notes=("Call ids are nine letters or digits.", "No user message right after a tool's."),
    ),
    Profile(
        id="groq",
        title="Groq",
        wire="openai-chat",
        base_url="https://api.groq.com/openai/v1",
        path="/chat/completions",
        models_path="/models",
        key_env=("GROQ_API_KEY",),
        stream_defaults=_USAGE,
        limits=ProviderLimits(tools=128, source="groq SDK 1.7.0"),
        features=_COMPATIBLE_FEATURES,
        max_tokens="max_completion_tokens",
        notes=("The server checks the model's call and answers 400 tool_use_failed.",),
    ),
    Profile(
        id="compatible",
        title="OpenAI-compatible server",
        wire="openai-chat",
        path="/chat/completions",
        models_path="/models",
        auth="optional",
        key_env=("TOOLGLOT_API_KEY",),
        base_env=("TOOLGLOT_BASE_URL",),
        stream_defaults=_USAGE,
        limits=ProviderLimits(source="issues of llama.cpp, vLLM and LM Studio"),
        features=_COMPATIBLE_FEATURES,
        empty_content="empty",
        notes=("Every deviation seen in the field is tolerated when decoding.",),
    ),
)
_BY_ID = {row.id: row for row in _ROWS}


def _derive_row(row: str, **changes: Any) -> Profile:
    """A row that differs from another in a few words."""
    return msgspec.structs.replace(_BY_ID[row], **changes)


_AZURE_HOST = "https://{resource}.openai.azure.com"
_AZURE: dict[str, Any] = {
    "base_url": _AZURE_HOST,
    "models_path": "/openai/v1/models",
    "auth": "api-key",
    "key_env": ("AZURE_OPENAI_API_KEY",),
    "token_env": ("AZURE_OPENAI_AD_TOKEN",),
    "sign_in": "entra",
    "base_env": ("AZURE_OPENAI_ENDPOINT",),
    "url_parameter_env": {"resource": ("AZURE_OPENAI_RESOURCE",), "version": ("OPENAI_API_VERSION",)},
}
_AZURE_CHAT: dict[str, Any] = {
    **_AZURE,
    "limits": msgspec.structs.replace(_OPENAI_LIMITS, call_id=r"[^\0]{1,40}", call_id_length=40, source="refusals on record"),
    "features": ToolFeatures(choices=NO_SUBSET),
    "media": frozenset({"image"}),
    "notes": ("The first chunk has no choices, only filter results.", "Call ids are at most 40 characters."),
}
_AZURE_RESPONSES: dict[str, Any] = {
    **_AZURE,
    "features": ToolFeatures(choices=NO_SUBSET, freeform=True, hosted=True, result_media=frozenset({"image", "file"})),
    "notes": ("Encrypted reasoning is not interchangeable with OpenAI's own.",),
}
_LOCAL_SERVER: dict[str, Any] = {"auth": "optional", "key_env": (), "base_env": ()}
_DERIVED_ROWS = (
    _derive_row(
        "openai-chat",
        id="azure-chat",
        title="Azure OpenAI, Chat Completions",
        path="/openai/v1/chat/completions",
        **_AZURE_CHAT,
    ),
    _derive_row(
        "openai-responses",
        id="azure-responses",
        title="Azure OpenAI, Responses",
        path="/openai/v1/responses",
        **_AZURE_RESPONSES,
    ),
    _derive_row(
        "openai-chat",
        id="azure-dated-chat",
        title="Azure OpenAI, Chat Completions (dated api-version)",
        path="/openai/deployments/{model}/chat/completions?api-version={version}",
        **_AZURE_CHAT,
    ),
    _derive_row(
        "openai-responses",
        id="azure-dated-responses",
        title="Azure OpenAI, Responses (dated api-version)",
        path="/openai/responses?api-version={version}",
        **_AZURE_RESPONSES,
    ),
    _derive_row(
        "gemini",
        id="vertex",
        title="Google Gemini (Vertex AI)",
        base_url="https://{location}-aiplatform.googleapis.com",
        path="/v1/projects/{project}/locations/{location}/publishers/google/models/{model}:generateContent",
        stream_path="/v1/projects/{project}/locations/{location}/publishers/google/models/{model}:streamGenerateContent?alt=sse",
        models_path="",
        auth="bearer",
        key_env=("GOOGLE_ACCESS_TOKEN",),
        sign_in="adc",
        base_env=("GOOGLE_VERTEX_BASE_URL",),
        url_parameter_env={"project": ("GOOGLE_CLOUD_PROJECT",), "location": ("GOOGLE_CLOUD_LOCATION",)},
        features=msgspec.structs.replace(_BY_ID["gemini"].features, streamed_arguments=True),
        notes=("Its signatures and the Developer API's are not interchangeable.",),
    ),
    _derive_row("compatible", id="llama.cpp", title="llama.cpp server", base_url="http://localhost:8080/v1", **_LOCAL_SERVER),
    _derive_row("compatible", id="lmstudio", title="LM Studio", base_url="http://localhost:1234/v1", **_LOCAL_SERVER),
    _derive_row(
        "compatible",
        id="vllm",
        title="vLLM",
        base_url="http://localhost:8000/v1",
        **{**_LOCAL_SERVER, "key_env": ("VLLM_API_KEY",)},
    ),
)
PROFILES = {row.id: row for row in (*_ROWS, *_DERIVED_ROWS)}
# Providers with two surfaces: the first pattern that fits the model decides.
_CHAT_MODELS = r"^(gpt-3|gpt-4|chatgpt|.*(audio|search-preview))"
SURFACES: dict[str, tuple[tuple[str, str], ...]] = {
    "openai": ((_CHAT_MODELS, "openai-chat"), ("", "openai-responses")),
    "azure": ((_CHAT_MODELS, "azure-chat"), ("", "azure-responses")),
}
ALIASES = {
    "google": "gemini",
    "grok": "xai",
    "sglang": "compatible",
}


class Fact(msgspec.Struct, frozen=True):
    """What is different for models whose name matches. Later facts win."""

    profiles: tuple[str, ...]
    model: str
    changes: dict[str, Any]
    source: str = ""


_CHAT = ("openai-chat", "azure-chat", "azure-dated-chat")
_OPENAI = (*_CHAT, "openai-responses", "azure-responses", "azure-dated-responses")
_GOOGLE = ("gemini", "vertex")

FACTS = (
    # OpenAI: reasoning models take no sampling parameters
    Fact(
        _OPENAI,
        r"^(o[134](-|$)|gpt-5(?!.*chat)|gpt-[6-9])",
        {"sampling": "none", "efforts": ("none", "minimal", "low", "medium", "high", "xhigh")},
        "OpenAI's API reference",
    ),
    Fact(_OPENAI, r"^gpt-5\.4-(mini|nano)", {"sampling": "all"}, "recorded 200"),
    Fact(
        _OPENAI,
        r"^gpt-(6-astra|6\.1-sol)",
        {"efforts": ("low", "medium", "high", "xhigh")},
        "pydantic-ai 2.66, live-tested 2026",
    ),
    Fact(_OPENAI, r"^o[134](-|$)", {"efforts": ("low", "medium", "high")}, "OpenAI's API reference"),
    Fact(
        ("openai-responses",),
        r"^gpt-(5\.[1-9]|[6-9])",
        {"features.typed": frozenset({"shell", "apply_patch"})},
        "OpenAI's guides to the shell and apply_patch tools: GPT-5.1 and newer, Responses only",
    ),
    Fact(_CHAT, r"^o1-mini", {"system_role": "user"}, "recorded 400"),
    Fact(_CHAT, r"audio", {"media": frozenset({"image", "file", "audio"})}, "recorded 400"),
    # Claude
    Fact(("anthropic",), r"claude-(opus-4-1|opus-4-5|sonnet-4-5|haiku-4-5)", {"sampling": "one"}, "recorded 400"),
    Fact(
        ("anthropic",),
        r"claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])",
        {"sampling": "none", "thinking_budget": False},
        "anthropic SDK 2.8.0, migration notes of Claude 4.7 and 5",
    ),
    Fact(
        ("anthropic",),
        r"claude-(opus|sonnet)-4-[6-9]|claude-(opus|sonnet|haiku|fable|mythos)-[5-9]",
        {"history.ends_with_user": True},
        "anthropic SDK 2.8.0",
    ),
    Fact(("anthropic",), r"claude-(opus-4-5|(opus|sonnet)-4-6)", {"efforts": ("low", "medium", "high")}, "anthropic SDK 2.8.0"),
    Fact(
        ("anthropic",),
        r"claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable|mythos)-[5-9])",
        {"efforts": ("low", "medium", "high", "xhigh", "max")},
        "anthropic SDK 2.8.0",
    ),
    Fact(
        ("anthropic",),
        r"claude-((opus|sonnet)-5-5|(fable|mythos)-5)",
        {"features.choices": frozenset({"auto", "none"})},
        "pydantic-ai 2.66, live-tested 2026",
    ),
    Fact(("anthropic",), r"claude-(opus|sonnet|haiku|fable|mythos)-[4-9]", {"default_max_tokens": 16_384}, "our choice"),
    Fact(("anthropic",), r"claude-3-7", {"features.typed": frozenset({"bash_20250124"})}, "Anthropic's page on its bash tool"),
    Fact(
        ("anthropic",),
        r"claude-(opus|sonnet|haiku|fable|mythos)-[4-9]",
        {"features.typed": frozenset({"text_editor_20250728", "bash_20250124", "memory_20250818"})},
        "anthropic SDK 2.8.0, Anthropic's pages on its text editor, bash and memory tools",
    ),
    # Gemini
    Fact(
        _GOOGLE,
        r"gemini-([3-9]|flash-latest|pro-latest)",
        {
            "signatures": True,
            "call_ids": True,
            "efforts": ("low", "high"),
            "features.result_media": frozenset({"image", "file"}),
        },
        "Gemini 3 documentation, refusals on record",
    ),
    # Behind a router the family counts
    Fact(
        ("openrouter",), r"^~?anthropic/", {"limits.cache_marks": 4}, "OpenRouter's documentation: cache_control passes through"
    ),
    Fact(("openrouter",), r"^~?google/", {"dialect": "OPENROUTER_GOOGLE"}, "pydantic-ai 2.66, live-tested 2026"),
    # Grok
    Fact(("xai",), r"grok-4\.[5-9]", {"efforts": ("low", "medium", "high")}, "pydantic-ai 2.66, live-tested 2026"),
    Fact(("xai",), r"grok-4\.7", {"efforts": ("low", "medium", "high", "xhigh")}, "pydantic-ai 2.66, live-tested 2026"),
)


# US dollars for a million tokens: input, cached input, output, and the day. From the vendors' price lists, since 2026 by way of
# models.dev and genai-prices. The price of short prompts: where a vendor asks more for long ones, that is not in it.
_PRICE_LISTS: dict[str, tuple[tuple[str, Price], ...]] = {
    "openai": (
        (r"^gpt-3\.5-turbo(-0125|$)", Price(0.50, 0.50, 1.50, "2025-07")),
        (r"^gpt-4-turbo(-20\d\d|$)", Price(10.0, 10.0, 30.0, "2025-07")),
        (r"^gpt-4(-0613|$)", Price(30.0, 30.0, 60.0, "2025-07")),
        (r"^gpt-4o-mini", Price(0.15, 0.075, 0.60, "2025-12")),
        (r"^gpt-4o-2024-05-13", Price(5.00, 5.00, 15.0, "2024-05")),
        (r"^gpt-4o(-\d|$)", Price(2.50, 1.25, 10.0, "2025-12")),
        (r"^gpt-4\.1-nano", Price(0.10, 0.025, 0.40, "2025-12")),
        (r"^gpt-4\.1-mini", Price(0.40, 0.10, 1.60, "2025-12")),
        (r"^gpt-4\.1(-\d|$)", Price(2.00, 0.50, 8.00, "2025-12")),
        (r"^o1(-20\d\d|$)", Price(15.0, 7.50, 60.0, "2024-12")),
        (r"^o1-pro", Price(150.0, 150.0, 600.0, "2025-03")),
        (r"^o3(-20\d\d|$)", Price(2.00, 0.50, 8.00, "2025-04")),
        (r"^o3-mini", Price(1.10, 0.55, 4.40, "2025-01")),
        (r"^o4-mini(-20\d\d|$)", Price(1.10, 0.275, 4.40, "2025-04")),
        (r"^gpt-5-nano", Price(0.05, 0.005, 0.40, "2025-12")),
        (r"^gpt-5-mini", Price(0.25, 0.025, 2.00, "2025-12")),
        (r"^gpt-5-pro", Price(15.0, 15.0, 120.0, "2025-11")),
        (r"^gpt-5\.1-codex-mini", Price(0.25, 0.025, 2.00, "2025-11")),
        (r"^gpt-5(\.1)?(-\d|$)", Price(1.25, 0.125, 10.0, "2025-12")),
        (r"^gpt-5(\.1)?-(chat|codex)", Price(1.25, 0.125, 10.0, "2025-11")),
        (r"^gpt-5\.2-pro", Price(21.0, 21.0, 168.0, "2025-12")),
        (r"^gpt-5\.2(-20\d\d|$)", Price(1.75, 0.175, 14.0, "2025-12")),
        (r"^gpt-5\.3-codex$", Price(1.75, 0.175, 14.0, "2026-02")),
        (r"^gpt-5\.4-pro", Price(30.0, 30.0, 180.0, "2026-03")),
        (r"^gpt-5\.4(-20\d\d|$)", Price(2.50, 0.25, 15.0, "2026-03")),
        (r"^gpt-5\.5(-20\d\d|$)", Price(5.00, 0.50, 30.0, "2026-04")),
        (r"^gpt-5\.6(-sol)?(-20\d\d|$)", Price(2.00, 0.20, 10.0, "2026-07")),
        (r"^gpt-6-astra", Price(10.0, 1.00, 50.0, "2026-09")),
    ),
    "anthropic": (
        (r"^claude-3-haiku", Price(0.25, 0.03, 1.25, "2025-06")),
        (r"^claude-3-opus", Price(15.0, 1.50, 75.0, "2025-06")),
        (r"^claude-3-5-haiku", Price(0.80, 0.08, 4.00, "2025-06")),
        (r"^claude-3(-[57])?-sonnet", Price(3.00, 0.30, 15.0, "2025-06")),
        (r"^claude-opus-4(-0)?(-20\d\d|$)", Price(15.0, 1.50, 75.0, "2025-05")),
        (r"^claude-opus-4-1", Price(15.0, 1.50, 75.0, "2025-12")),
        (r"^claude-opus-4-5", Price(5.00, 0.50, 25.0, "2025-12")),
        (r"^claude-opus-4-[678]", Price(5.00, 0.50, 25.0, "2026-03")),
        (r"^claude-sonnet-4-6", Price(3.00, 0.30, 15.0, "2026-03")),
        (r"^claude-sonnet-4", Price(3.00, 0.30, 15.0, "2025-12")),
        (r"^claude-haiku-4-5", Price(1.00, 0.10, 5.00, "2025-12")),
        (r"^claude-opus-5(-20\d\d|$)", Price(5.00, 0.50, 25.0, "2026-07")),
        (r"^claude-sonnet-5(-20\d\d|$)", Price(2.00, 0.20, 10.0, "2026-06")),
        (r"^claude-fable-5(-20\d\d|$)", Price(10.0, 1.00, 50.0, "2026-06")),
        (r"^claude-opus-5-5", Price(4.00, 0.20, 20.0, "2026-10")),
        (r"^claude-sonnet-5-5", Price(2.00, 0.10, 10.0, "2026-10")),
    ),
    "google": (
        (r"^gemini-2\.0-flash(-001|$)", Price(0.10, 0.025, 0.40, "2024-12")),
        (r"^gemini-2\.5-flash-lite", Price(0.10, 0.01, 0.40, "2025-12")),
        (r"^gemini-2\.5-flash(?!-(image|native|live))", Price(0.30, 0.03, 2.50, "2025-12")),
        (r"^gemini-2\.5-pro", Price(1.25, 0.125, 10.0, "2025-12")),
        (r"^gemini-3-pro-preview", Price(2.00, 0.20, 12.0, "2025-11")),
        (r"^gemini-3-flash-preview", Price(0.50, 0.05, 3.00, "2025-12")),
        (r"^gemini-3\.1-pro-preview", Price(2.00, 0.20, 12.0, "2026-02")),
        (r"^gemini-3\.1-flash-lite", Price(0.25, 0.025, 1.50, "2026-05")),
        (r"^gemini-3\.5-flash$", Price(1.50, 0.15, 9.00, "2026-05")),
        (r"^gemini-3\.8-flash$", Price(0.75, 0.075, 3.75, "2026-09")),  # until the end of 2026; then 1.50, 0.15, 7.50
    ),
    "xai": (
        (r"^grok-3-mini(-beta|-latest|$)", Price(0.30, 0.075, 0.50, "2025-07")),
        (r"^grok-3(-beta|-latest|$)", Price(3.00, 0.75, 15.0, "2025-07")),
        (r"^grok-4(-0709|-latest|$)", Price(3.00, 0.75, 15.0, "2025-07")),
        (r"^grok-4(-1)?-fast", Price(0.20, 0.05, 0.50, "2026-01")),
        (r"^grok-4\.20$", Price(1.25, 0.20, 2.50, "2026-06")),
        (r"^grok-4\.3", Price(1.25, 0.20, 2.50, "2026-05")),
        (r"^grok-4\.5", Price(2.00, 0.50, 6.00, "2026-07")),
        (r"^grok-4\.[67]", Price(2.00, 0.50, 6.00, "2026-08")),
        (r"^grok-code-fast", Price(0.20, 0.02, 1.50, "2026-01")),
    ),
    "deepseek": (
        (r"^deepseek-v4-flash$", Price(0.14, 0.0028, 0.28, "2026-05")),
        (r"^deepseek-v4-pro$", Price(0.435, 0.003625, 0.87, "2026-06")),
    ),
    "mistral": (
        (r"^mistral-large-2512", Price(0.50, 0.05, 1.50, "2026-06")),
        (r"^mistral-medium-(2505|2508)", Price(0.40, 0.04, 2.00, "2026-08")),
        (r"^mistral-medium-3[-.]5", Price(1.50, 0.15, 7.50, "2026-08")),
        (r"^mistral-small-2603", Price(0.15, 0.015, 0.60, "2026-06")),
        (r"^devstral-2512", Price(0.40, 0.04, 2.00, "2026-06")),
        (r"^codestral-2508", Price(0.30, 0.03, 0.90, "2026-06")),
    ),
    "groq": (
        (r"^openai/gpt-oss-120b$", Price(0.15, 0.075, 0.60, "2026-05")),
        (r"^openai/gpt-oss-20b$", Price(0.075, 0.0375, 0.30, "2026-05")),
        (r"^qwen/qwen3\.8-27b$", Price(0.80, 0.40, 4.00, "2026-08")),
    ),
}
PRICES = tuple(row for rows in _PRICE_LISTS.values() for row in rows)


def _find_price(profile: str, model: str) -> Price | None:
    rows = _PRICE_LISTS.get(find_vendor(profile) or "", ())
    return next((price for pattern, price in rows if re.search(pattern, model)), None)


def select_row(provider: str, model: str) -> str:
    """The id of the row that counts for a provider (id or alias) and a model."""
    for pattern, row in SURFACES.get(provider, ()):
        if re.search(pattern, model):
            return row
    return ALIASES.get(provider, provider)


@lru_cache(maxsize=512)
def resolve_profile(provider: str, model: str = "") -> Profile:
    """The profile of a provider (id or alias) with what is known of the model. Raises UnknownName."""
    profile = PROFILES.get(select_row(provider, model))
    if profile is None:
        raise UnknownName("provider", provider, {*PROFILES, *ALIASES, *SURFACES})
    changes: dict[str, Any] = {"model": model, "price": _find_price(profile.id, model)}
    if window := find_window(profile.id, model):
        changes |= {"limits.context": window.context, "limits.answer": window.answer}
    for fact in FACTS:
        if profile.id in fact.profiles and re.search(fact.model, model):
            changes.update(fact.changes)
    for part in ("features", "history", "limits"):
        inner = {key.removeprefix(f"{part}."): changes.pop(key) for key in list(changes) if key.startswith(f"{part}.")}
        if inner:
            changes[part] = msgspec.structs.replace(getattr(profile, part), **inner)
    return msgspec.structs.replace(profile, **changes)
