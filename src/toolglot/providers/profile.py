"""A vendor's endpoint as data: where it is, what it allows, and how it wants things said.

A profile is resolved for a model (`catalog.resolve`) before anything is encoded: encoders read fields, never names.
"""

from typing import Any, Literal

import msgspec

from toolglot.messages import Usage

__all__ = ["HistoryRules", "Price", "Profile", "ProviderLimits", "ToolFeatures"]

Choice = Literal["auto", "none", "required", "named", "subset"]
ANY_CHOICE: frozenset[Choice] = frozenset({"auto", "none", "required", "named", "subset"})
ANY_MEDIA = frozenset({"image", "audio", "video", "file"})


class ProviderLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider refuses, as of a day, by a source. None: no limit is known."""

    tools: int | None = None
    """Tools in one request."""
    name: str = r"[a-zA-Z0-9_-]{1,64}"
    """Pattern of a tool's name."""
    name_length: int = 64
    call_id: str = r"[^\0]{1,64}"
    """Pattern of a call's id."""
    call_id_length: int = 64
    description: int | None = None
    """Characters of one tool's description."""
    request_bytes: int | None = None
    cache_marks: int | None = None
    stops: int | None = None
    """Stop sequences in one request."""
    context: int | None = None
    """Tokens of prompt and answer together; known by the model."""
    answer: int | None = None
    """Tokens of one answer."""
    as_of: str = "2026-11-15"
    source: str = ""


class ToolFeatures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can do with tools here. What it cannot is emulated or lost, and said so."""

    choices: frozenset[Choice] = ANY_CHOICE
    parallel: bool = True
    """Several calls in one turn."""
    parallel_off: bool = True
    """It can be told to make one call at a time."""
    streamed_arguments: bool = True
    strict: bool = True
    freeform: bool = False
    namespaces: bool = False
    hosted: bool = False
    error_flag: bool = False
    result_media: frozenset[str] = frozenset()
    """Kinds of media that a tool result may hold."""
    typed: frozenset[str] = frozenset()
    """Types of tools that the model knows by themselves, and the caller runs."""


class HistoryRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider asks of a conversation beyond calls and results in pairs."""

    calls_last: bool = False
    """No text after a call in one turn."""
    starts_with_user: bool = False
    ends_with_user: bool = False
    """No answer begun by the caller (prefill)."""
    plain_prefill: bool = False
    """An answer begun by the caller holds no thinking, and no white space at its end."""
    no_blank_text: bool = False
    filler_after_results: bool = False
    """The assistant speaks between results and the user's next words."""
    needs_turn: bool = False
    """Instructions alone are no request."""


class Price(msgspec.Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float
    cached: float
    output: float
    as_of: str = ""

    def cost(self, usage: Usage) -> float:
        """What this much costs."""
        fresh = max(0, usage.input - usage.cached)
        return (fresh * self.input + usage.cached * self.cached + usage.output * self.output) / 1_000_000


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One vendor's endpoint, resolved for one model."""

    id: str
    title: str
    wire: str
    base_url: str = ""
    path: str = ""
    """With {model}, and {deployment}, {project}, {location} where the vendor has them in the URL."""
    stream_path: str = ""
    models_path: str = ""
    """Where the provider lists its models; "": nowhere."""
    auth: Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "optional"] = "bearer"
    """The header of the key; optional: bearer, where there is a key."""
    key_env: tuple[str, ...] = ()
    token_env: tuple[str, ...] = ()
    """Variables that hold a token, which is sent as a bearer."""
    sign_in: Literal["", "entra", "adc", "copilot"] = ""
    """How tokens are had where no key is given: Microsoft Entra, Google's application default credentials, GitHub."""
    model: str = ""

    limits: ProviderLimits = ProviderLimits()
    features: ToolFeatures = ToolFeatures()
    history: HistoryRules = HistoryRules()
    dialect: str = "COMPATIBLE"
    strict_dialect: str = ""
    """Names in schema.dialects; "" where there is no strict mode."""

    max_tokens: str = "max_tokens"
    """The field's name."""
    default_max_tokens: int | None = None
    """Sent where the caller says nothing and the provider requires it."""
    system_role: str = "system"
    sampling: Literal["all", "one", "none"] = "all"
    """Of temperature, top_p, top_k and the penalties: all, temperature or top_p but not both, or none."""
    options: frozenset[str] = frozenset({"temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty"})
    max_temperature: float = 2.0
    efforts: tuple[str, ...] = ()
    """Levels of reasoning effort that may be asked for, lowest first."""
    thinking_budget: bool = False
    media: frozenset[str] = frozenset({"image"})
    """Kinds of media that a user message may hold."""
    json_output: Literal["schema", "object", "none"] = "schema"
    empty_content: Literal["null", "empty", "omit"] = "null"
    """The content of an assistant message that only calls tools."""
    reasoning_echo: Literal["no", "own", "required"] = "own"
    """Reasoning text in the history: never sent, sent back to its origin, or asked for on every call."""
    result_name: bool = False
    """A tool message also names its tool."""
    signatures: bool = False
    """Gemini 3: the first call of a turn carries a thoughtSignature."""
    call_ids: bool = True
    state: Literal["model", "profile"] = "profile"
    """What opaque state is bound to."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    defaults: dict[str, Any] = {}
    """Fields of the body that our own engine sends where the caller says nothing."""
    stream_defaults: dict[str, Any] = {}
    """The same, where the answer is streamed."""
    base_env: tuple[str, ...] = ()
    """Variables that hold another base URL, as the vendor's own SDK reads them."""
    url_parameter_env: dict[str, tuple[str, ...]] = {}
    """What stands in braces in the URL -> variables that hold it."""
    price: Price | None = None
    notes: tuple[str, ...] = ()
    """Quirks a contributor should know, one sentence each."""
