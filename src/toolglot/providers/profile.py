"""A vendor's endpoint as data: its address, its limits, and how it wants requests written.

A profile is resolved for a model (`catalog.resolve_profile`) before anything is encoded: encoders read its fields and never
compare names of vendors.
"""

from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr, replace

from toolglot.messages import Usage
from toolglot.schema import dialects

__all__ = ["HistoryRules", "Price", "Profile", "ProviderLimits", "ToolFeatures"]

Choice = Literal["auto", "none", "required", "named", "subset"]
ANY_CHOICE: frozenset[Choice] = frozenset({"auto", "none", "required", "named", "subset"})
ANY_MEDIA = frozenset({"image", "audio", "video", "file"})


class ProviderLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider refuses, with the date and the source. None: no limit is known."""

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
    parameter_types: frozenset[str] = frozenset()
    """Types that a parameter can have, with `map` (free keys) and `any`. Others are converted (a Loss). From the dialect."""
    request_bytes: int | None = None
    cache_marks: int | None = None
    stops: int | None = None
    """Stop sequences in one request."""
    context: int | None = None
    """Tokens of prompt and answer together; depends on the model."""
    answer: int | None = None
    """Tokens of one answer."""
    as_of: str = ""
    source: str = ""
    """Where the limits are from, as of a date."""


class ToolFeatures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can do with tools here. The rest is emulated or reported as a Loss."""

    choices: frozenset[Choice] = ANY_CHOICE
    parallel: bool = True
    """Several calls in one turn."""
    streaming: bool = True
    """Replies can be streamed, also those with calls."""
    parallel_off: bool = True
    """Parallel calls can be disabled."""
    streamed_arguments: bool = True
    """A call's arguments arrive in pieces (`ToolCallDelta`); otherwise each call arrives whole."""
    strict: bool = True
    """Calls that are guaranteed to follow the schema."""
    freeform: bool = False
    """Tools that take plain text instead of JSON."""
    namespaces: bool = False
    tool_search: bool = False
    """Deferred tools, whose schemas the model loads by a search of the provider or of the caller."""
    tool_changes: bool = False
    """Tools that come in the course of a conversation, without a change of those before."""
    hosted: bool = False
    """Tools that the provider runs itself, such as its web search."""
    error_flag: bool = False
    """A result can be marked as an error; otherwise its text says so."""
    examples: bool = False
    """Examples of calls have a field of their own; otherwise they are part of the description."""
    result_media: frozenset[str] = frozenset()
    """Kinds of media that a tool result may hold."""
    typed: frozenset[str] = frozenset()
    """Types of native tools: the model knows their schemas, the caller runs them."""
    limits: ProviderLimits = ProviderLimits()
    """The limits of the profile."""


class HistoryRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider requires of a conversation beyond paired calls and results."""

    calls_last: bool = False
    """No text after a call in one turn."""
    starts_with_user: bool = False
    ends_with_user: bool = False
    """No prefill (an answer that the caller begins)."""
    plain_prefill: bool = False
    """A prefill has no thinking and no trailing white space."""
    no_blank_text: bool = False
    filler_after_results: bool = False
    """An assistant message must stand between results and the user's next message."""
    needs_turn: bool = False
    """A request needs a message besides the instructions."""


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float
    cached: float
    output: float
    as_of: str = ""
    cache_write: float | None = None
    """For input that is written to the prompt cache, where that costs more than other input."""

    def cost(self, usage: Usage) -> float:
        """Return the cost in US dollars."""
        written = usage.cache_write if self.cache_write is not None else 0
        uncached = max(0, usage.input - usage.cached - written)
        cost = uncached * self.input + usage.cached * self.cached + usage.output * self.output
        return (cost + written * (self.cache_write or 0.0)) / 1_000_000


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One vendor's endpoint, resolved for one model."""

    id: str
    title: str
    wire: str
    base_url: str = ""
    path: str = ""
    """With the placeholders {model}, {project}, {location}, {version} where the vendor's URL has them."""
    stream_path: str = ""
    models_path: str = ""
    """Where the provider lists its models; "" if it does not."""
    auth: Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "optional"] = "bearer"
    """The header that carries the key. optional: bearer, if there is a key."""
    key_env: tuple[str, ...] = ()
    token_env: tuple[str, ...] = ()
    """Environment variables with a token, which is sent as a bearer."""
    sign_in: str = ""
    """How to obtain a token without a key: entra (Microsoft), adc (Google's application default credentials), copilot (GitHub),
    or the name of a plug-in."""
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
    """Sent if the caller sets no limit and the provider requires one."""
    system_role: str = "system"
    sampling: Literal["all", "one", "none"] = "all"
    """Which of temperature, top_p, top_k and the penalties are accepted; one: temperature or top_p, but not both."""
    options: frozenset[str] = frozenset({"temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty"})
    max_temperature: float = 2.0
    efforts: tuple[str, ...] = ()
    """Levels of reasoning effort, lowest first."""
    thinking_budget: bool = False
    cache_field: Literal["", "cache_control", "prompt_cache_breakpoint"] = ""
    """The field of a part that marks it for the prompt cache; "": none, the provider chooses what it caches."""
    cache_ttls: tuple[str, ...] = ()
    """Times to live that a mark can ask for, shortest first."""
    media: frozenset[str] = frozenset({"image"})
    """Kinds of media that a user message may hold."""
    json_output: Literal["schema", "object", "none"] = "schema"
    empty_content: Literal["null", "empty", "omit"] = "null"
    """The content of an assistant message that only calls tools."""
    reasoning_echo: Literal["no", "own", "required"] = "own"
    """Reasoning text in the history: never sent, sent back to its origin, or required on every turn with calls."""
    raw_arguments: bool = False
    """Arguments of its own calls that are no JSON object are accepted back; other servers parse them (llama.cpp, vLLM)."""
    result_name: bool = False
    """A tool message also names its tool."""
    signatures: bool = False
    """Gemini 3: the first call of a turn carries a thoughtSignature."""
    call_ids: bool = True
    text_calls: bool = False
    """Servers may leave calls in the text, because they were not told the model's form of them. They are read from it."""
    state: Literal["model", "profile"] = "profile"
    """What opaque state is bound to."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    defaults: dict[str, Any] = {}
    """Fields of the body that the engine adds unless the caller sets them."""
    stream_defaults: dict[str, Any] = {}
    """The same for streamed replies."""
    base_env: tuple[str, ...] = ()
    """Environment variables with another base URL, as the vendor's own SDK reads them."""
    url_parameter_env: dict[str, tuple[str, ...]] = {}
    """Placeholder in the URL -> environment variables with its value."""
    price: Price | None = None
    notes: tuple[str, ...] = ()
    """Quirks that a contributor should know, one sentence each."""

    def __post_init__(self) -> None:
        # Here, so that both also follow a profile that is changed for a model or healed.
        limits = replace(self.limits, parameter_types=getattr(dialects, self.dialect).parameter_types)
        force_setattr(self, "limits", limits)
        force_setattr(self, "features", replace(self.features, limits=limits))

    @property
    def accepted_options(self) -> frozenset[str]:
        """The options without those that `sampling` excludes."""
        return self.options if self.sampling != "none" else self.options & {"stop", "seed"}

    def apply(self, changes: dict[str, Any]) -> "Profile":
        """Return a profile with other values. A key may name a field of a part: `features.strict`."""
        fields: dict[str, Any] = {}
        for key, value in changes.items():
            part, _, name = key.rpartition(".")
            if part:
                fields[part] = replace(fields.get(part) or getattr(self, part), **{name: value})
            else:
                fields[key] = value
        return replace(self, **fields)
