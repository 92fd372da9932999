"""DATA: one row per vendor. Every limit has a source and a date.

A new vendor that speaks an existing wire is one row here and no code anywhere else. What depends on the model
is in `model_facts` and `model_data`.
"""

import re
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from toolglot.common.plugins import find_plugin, plugin_error, plugin_names
from toolglot.common.textutil import did_you_mean, suggest
from toolglot.errors import UnknownName
from toolglot.providers.model_data import find_price, find_window, known_models
from toolglot.providers.model_facts import FACTS
from toolglot.providers.profile import (
    ANY_CHOICE,
    ANY_MEDIA,
    HistoryRules,
    Profile,
    ProviderLimits,
    ToolFeatures,
)

__all__ = [
    "ALIASES",
    "PROFILES",
    "SURFACES",
    "infer_provider",
    "resolve_profile",
    "select_row",
    "split_model",
]

NO_SUBSET = ANY_CHOICE - {"subset"}  # `allowed_tools` is OpenAI's own

_AS_OF = "2026-11-15"  # when the limits were last compared with their sources
_OPENAI_LIMITS = ProviderLimits(
    as_of=_AS_OF, tools=128, stops=4, source="OpenAI's OpenAPI document 2026-08 and recorded refusals"
)
_OPENAI: dict[str, Any] = {
    "base_url": "https://api.openai.com/v1",
    "key_env": ("OPENAI_API_KEY",),
    "base_env": ("OPENAI_BASE_URL",),
    "limits": _OPENAI_LIMITS,
    "dialect": "OPENAI",
    "strict_dialect": "OPENAI_STRICT",
    "media": frozenset({"image", "file"}),
    "raw_arguments": True,
}
# Without it a stream does not report its usage.
_USAGE = {"stream_options": {"include_usage": True}}
_COMPATIBLE_FEATURES = ToolFeatures(choices=NO_SUBSET, strict=False)
_ALL_SAMPLING = frozenset(
    {"temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}
)


def _chat_vendor(**fields: Any) -> Profile:
    """Return the row of a vendor that speaks OpenAI's Chat Completions."""
    defaults: dict[str, Any] = {
        "wire": "openai-chat",
        "path": "/chat/completions",
        "models_path": "/models",
        "stream_defaults": _USAGE,
    }
    return Profile(**{**defaults, **fields})


_ROWS = (
    _chat_vendor(
        **_OPENAI,
        id="openai-chat",
        title="OpenAI Chat Completions",
        features=ToolFeatures(freeform=True),
        max_tokens="max_completion_tokens",
        reasoning_echo="no",
        notes=(
            "Tool results are text: images follow in a user message.",
            "Models from gpt-5.4 on take function tools only on Responses.",
        ),
    ),
    Profile(
        **_OPENAI,
        id="openai-responses",
        title="OpenAI Responses",
        wire="openai-responses",
        path="/responses",
        models_path="/models",
        defaults={"store": False, "include": ["reasoning.encrypted_content"]},
        features=ToolFeatures(
            freeform=True,
            namespaces=True,
            hosted=True,
            tool_changes=True,
            result_media=frozenset({"image", "file"}),
        ),
        history=HistoryRules(needs_turn=True),
        max_tokens="max_output_tokens",
        options=frozenset({"temperature", "top_p"}),
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
            as_of=_AS_OF,
            name=r"[a-zA-Z0-9_-]{1,128}",
            name_length=128,
            call_id=r"[a-zA-Z0-9_-]+",
            cache_marks=4,
            request_bytes=32_000_000,
            source="anthropic SDK 2.8.0 and recorded refusals",
        ),
        features=ToolFeatures(
            choices=NO_SUBSET,
            hosted=True,
            error_flag=True,
            examples=True,
            result_media=frozenset({"image", "file"}),
        ),
        history=HistoryRules(
            calls_last=True, starts_with_user=True, no_blank_text=True, needs_turn=True, plain_prefill=True
        ),
        dialect="ANTHROPIC",
        strict_dialect="ANTHROPIC_STRICT",
        default_max_tokens=4096,
        options=frozenset({"temperature", "top_p", "top_k", "stop"}),
        max_temperature=1.0,
        thinking_budget=True,
        cache_field="cache_control",
        cache_ttls=("5m", "1h"),
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
            as_of=_AS_OF,
            tools=512,
            stops=5,
            name=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
            source="Google's v1beta protos 2026-08, google-genai 3.1.0",
        ),
        features=ToolFeatures(parallel_off=False, streamed_arguments=False, hosted=True, error_flag=True),
        history=HistoryRules(starts_with_user=True, needs_turn=True),
        dialect="GEMINI",
        options=_ALL_SAMPLING,
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
        limits=ProviderLimits(
            as_of=_AS_OF,
            name=r"(?s:.+)",
            name_length=10_000,
            call_id=r"(?s:.+)",
            source="Ollama's api/types.go 2026-08",
        ),
        features=ToolFeatures(
            choices=frozenset({"auto"}), parallel_off=False, streamed_arguments=False, strict=False
        ),
        dialect="OLLAMA",
        options=_ALL_SAMPLING,
        efforts=("none", "low", "medium", "high", "max"),
        result_name=True,
        text_calls=True,
        notes=("No tool_choice: none leaves the tools out, a subset filters them.",),
    ),
    _chat_vendor(
        id="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        limits=ProviderLimits(
            as_of=_AS_OF, call_id=r"[^\0]{1,40}", call_id_length=40, source="openrouter SDK 1.3.84"
        ),
        features=ToolFeatures(choices=NO_SUBSET, hosted=True),
        options=_ALL_SAMPLING,
        efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        media=frozenset({"image", "file", "audio"}),
        state="model",
        notes=("reasoning_details go back verbatim, to the same upstream model only.",),
    ),
    _chat_vendor(
        id="copilot",
        title="GitHub Copilot",
        base_url="https://api.githubcopilot.com",
        key_env=("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"),
        sign_in="copilot",
        base_env=("GITHUB_COPILOT_BASE_URL", "COPILOT_API_URL", "GITHUB_COPILOT_API_BASE"),
        headers={"Editor-Version": "vscode/1.110.0", "Copilot-Integration-Id": "vscode-chat"},
        limits=ProviderLimits(
            as_of=_AS_OF,
            tools=128,
            call_id=r"[^\0]{1,40}",
            call_id_length=40,
            source="VS Code's Copilot client 2026-03",
        ),
        features=_COMPATIBLE_FEATURES,
        max_tokens="max_completion_tokens",
        notes=(
            "max_tokens is refused with a bare 400.",
            "Deltas may lack a reliable index: calls are keyed by id.",
        ),
    ),
    _chat_vendor(
        id="xai",
        title="xAI Grok",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        base_env=("XAI_API_BASE",),
        limits=ProviderLimits(as_of=_AS_OF, tools=1000, source="xAI's API reference 2026"),
        features=ToolFeatures(choices=NO_SUBSET, strict=False, streamed_arguments=False),
        options=frozenset({"temperature", "top_p", "seed"}),
        efforts=("none", "low", "medium", "high"),
        notes=("Calls come whole.", "An error may be a plain string."),
    ),
    _chat_vendor(
        id="deepseek",
        title="DeepSeek",
        base_url="https://api.deepseek.com",
        key_env=("DEEPSEEK_API_KEY",),
        limits=ProviderLimits(as_of=_AS_OF, tools=128, source="DeepSeek's API reference 2026"),
        features=ToolFeatures(choices=frozenset({"auto", "none"}), strict=False, parallel_off=False),
        media=frozenset(),
        efforts=("low", "high", "max"),
        json_output="object",
        reasoning_echo="required",
        empty_content="empty",
        notes=(
            "Thinking is on by default: every turn that called tools is sent back with its "
            "reasoning_content.",
        ),
    ),
    _chat_vendor(
        id="mistral",
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        stream_defaults={},  # `stream_options` is refused; usage comes anyway
        limits=ProviderLimits(
            as_of=_AS_OF,
            call_id=r"[a-zA-Z0-9]{9}",
            call_id_length=9,
            source="mistralai SDK 3.7.0 and recorded refusals",
        ),
        features=ToolFeatures(choices=NO_SUBSET - {"none"}, strict=False, streamed_arguments=False),
        # `seed` is refused
        options=frozenset({"temperature", "top_p", "stop", "presence_penalty", "frequency_penalty"}),
        history=HistoryRules(filler_after_results=True),
        empty_content="empty",
        result_name=True,
        notes=("Call ids are nine letters or digits.", "No user message right after a tool's."),
    ),
    _chat_vendor(
        id="groq",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        limits=ProviderLimits(as_of=_AS_OF, tools=128, source="groq SDK 1.7.0"),
        features=_COMPATIBLE_FEATURES,
        max_tokens="max_completion_tokens",
        notes=("The server checks the model's call and answers 400 tool_use_failed.",),
    ),
    _chat_vendor(
        id="compatible",
        title="OpenAI-compatible server",
        auth="optional",
        key_env=("TOOLGLOT_API_KEY",),
        base_env=("TOOLGLOT_BASE_URL",),
        limits=ProviderLimits(as_of=_AS_OF, source="issues of llama.cpp, vLLM and LM Studio"),
        features=_COMPATIBLE_FEATURES,
        empty_content="empty",
        text_calls=True,
        notes=("Every deviation seen in the field is tolerated when decoding.",),
    ),
)
_BY_ID = {row.id: row for row in _ROWS}


_AZURE = {
    "base_url": "https://{resource}.openai.azure.com",
    "models_path": "/openai/v1/models",
    "auth": "api-key",
    "key_env": ("AZURE_OPENAI_API_KEY",),
    "token_env": ("AZURE_OPENAI_AD_TOKEN",),
    "sign_in": "entra",
    "base_env": ("AZURE_OPENAI_ENDPOINT",),
    "url_parameter_env": {"resource": ("AZURE_OPENAI_RESOURCE",), "version": ("OPENAI_API_VERSION",)},
}
_AZURE_CHAT = replace(
    _BY_ID["openai-chat"],
    **_AZURE,
    id="azure-chat",
    title="Azure OpenAI, Chat Completions",
    path="/openai/v1/chat/completions",
    limits=replace(_OPENAI_LIMITS, call_id=r"[^\0]{1,40}", call_id_length=40, source="recorded refusals"),
    features=ToolFeatures(choices=NO_SUBSET),
    media=frozenset({"image"}),
    notes=("The first chunk has no choices, only filter results.", "Call ids are at most 40 characters."),
)
_AZURE_RESPONSES = replace(
    _BY_ID["openai-responses"],
    **_AZURE,
    id="azure-responses",
    title="Azure OpenAI, Responses",
    path="/openai/v1/responses",
    features=ToolFeatures(
        choices=NO_SUBSET, freeform=True, hosted=True, result_media=frozenset({"image", "file"})
    ),
    notes=("Encrypted reasoning is not interchangeable with OpenAI's own.",),
)
_DATED_PATHS = {
    "azure-dated-chat": (_AZURE_CHAT, "/openai/deployments/{model}/chat/completions?api-version={version}"),
    "azure-dated-responses": (_AZURE_RESPONSES, "/openai/responses?api-version={version}"),
}
_VERTEX_PATH = "/v1/projects/{project}/locations/{location}/publishers/google/models/{model}"
_LOCAL_SERVERS = (
    ("llama.cpp", "llama.cpp server", 8080, ()),
    ("lmstudio", "LM Studio", 1234, ()),
    ("vllm", "vLLM", 8000, ("VLLM_API_KEY",)),
)
_DERIVED_ROWS = (
    _AZURE_CHAT,
    _AZURE_RESPONSES,
    *(
        replace(row, id=id, title=f"{row.title} (dated api-version)", path=path)
        for id, (row, path) in _DATED_PATHS.items()
    ),
    replace(
        _BY_ID["gemini"],
        id="vertex",
        title="Google Gemini (Vertex AI)",
        base_url="https://{location}-aiplatform.googleapis.com",
        path=f"{_VERTEX_PATH}:generateContent",
        stream_path=f"{_VERTEX_PATH}:streamGenerateContent?alt=sse",
        models_path="",
        auth="bearer",
        key_env=("GOOGLE_ACCESS_TOKEN",),
        sign_in="adc",
        base_env=("GOOGLE_VERTEX_BASE_URL",),
        url_parameter_env={"project": ("GOOGLE_CLOUD_PROJECT",), "location": ("GOOGLE_CLOUD_LOCATION",)},
        features=replace(_BY_ID["gemini"].features, streamed_arguments=True),
        notes=("Its signatures and the Developer API's are not interchangeable.",),
    ),
    *(
        replace(
            _BY_ID["compatible"],
            id=id,
            title=title,
            base_url=f"http://localhost:{port}/v1",
            key_env=key_env,
            base_env=(),
        )
        for id, title, port, key_env in _LOCAL_SERVERS
    ),
)
PROFILES = {row.id: row for row in (*_ROWS, *_DERIVED_ROWS)}
# Providers with two APIs: the first pattern that matches the model decides.
_CHAT_MODELS = r"^(gpt-3|gpt-4|chatgpt|.*(audio|search-preview))"
SURFACES: dict[str, tuple[tuple[str, str], ...]] = {
    "openai": ((_CHAT_MODELS, "openai-chat"), ("", "openai-responses")),
    "azure": ((_CHAT_MODELS, "azure-chat"), ("", "azure-responses")),
}
ALIASES = {"claude": "anthropic", "google": "gemini", "gpt": "openai", "grok": "xai", "sglang": "compatible"}

# provider -> the model that is used if none is named
DEFAULT_MODELS = {
    "anthropic": "claude-sonnet-5",
    "openai": "gpt-5.1",
    "gemini": "gemini-2.5-pro",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "xai": "grok-4",
    "deepseek": "deepseek-chat",
    "mistral": "mistral-large-latest",
    "groq": "llama-3.3-70b-versatile",
}

# Models whose vendor is clear from the name alone; gpt-oss and others that anybody serves are not among them.
_VENDOR_PATTERNS = (
    (r"^claude-", "anthropic"),
    (r"^(gpt-(?!oss)|chatgpt-|o\d|codex-)", "openai"),
    (r"^gemini-", "gemini"),
    (r"^grok-", "xai"),
    (r"^deepseek-(chat|reasoner)", "deepseek"),
    (r"^(mistral|magistral|codestral|devstral|ministral|pixtral)-.*-(latest|\d{4})$", "mistral"),
)


def infer_provider(model: str) -> str | None:
    """Return the provider of a model that is named without one; None if several serve it, or it is not known."""
    for pattern, provider in _VENDOR_PATTERNS:
        if re.search(pattern, model):
            return provider
    return None


def suggest_model(name: str) -> str:
    """Return "; did you mean …?" for a misspelt provider or well-known model, or an empty text."""
    # what may have been meant -> how to write it
    names = {provider: f"{provider}:{model}" for provider, model in DEFAULT_MODELS.items()}
    names["simulator"] = "simulator"
    for profile_id in PROFILES:
        for model in known_models(profile_id):
            provider = infer_provider(model)
            if provider and "*" not in model:
                names[model] = f"{provider}:{model}"
    hint = did_you_mean(names[match] for match in suggest(name, names, limit=1, cutoff=0.75))
    return f"; {hint}" if hint else ""


def split_model(name: str) -> tuple[str, str]:
    """Return provider and model of PROVIDER:MODEL; the provider may be left out if the name of the model says
    it.
    """
    provider, colon, model = name.partition(":")
    if colon:
        return provider, model
    inferred = infer_provider(name)
    if inferred is None:
        return name, ""
    return inferred, name


def select_row(provider: str, model: str) -> str:
    """Return the id of the row for a provider (id or alias) and a model."""
    provider = ALIASES.get(provider, provider)
    for pattern, row in SURFACES.get(provider, ()):
        if re.search(pattern, model):
            return row
    return provider


@lru_cache(maxsize=512)
def resolve_profile(provider: str, model: str = "") -> Profile:
    """Return the profile of a provider (id, alias or plug-in), with what is known about the model.

    Raises UnknownName.
    """
    row = select_row(provider, model)
    if row not in PROFILES:
        plugin = find_plugin("profiles", row)
        if plugin is None:
            raise UnknownName(
                "provider", provider, {*PROFILES, *ALIASES, *SURFACES, *plugin_names("profiles")}
            )
        if not isinstance(plugin, Profile) or plugin.id != row:
            raise plugin_error("profiles", row, f"is not a Profile with the id {row!r}")
        PROFILES[row] = plugin
    profile = PROFILES[row]
    changes: dict[str, Any] = {"model": model, "price": find_price(profile.id, model)}
    if window := find_window(profile.id, model):
        changes |= {"limits.context": window.context, "limits.answer": window.answer}
    for fact in FACTS:
        if profile.id in fact.profiles and re.search(fact.model, model):
            changes.update(fact.changes)
    return profile.apply(changes)
