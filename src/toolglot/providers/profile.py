"""A vendor's endpoint as data: its URL, its limits, and how requests to it must be encoded.

A profile is resolved for a model (`catalog.resolve_profile`) before anything is encoded: encoders read its
fields and never compare vendor names.
"""

from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr, replace

from toolglot.schema import dialects
from toolglot.values.messages import Usage

__all__ = ["HistoryRules", "Price", "Profile", "ProviderLimits", "ToolFeatures"]

Choice = Literal["auto", "none", "required", "named", "subset"]
ANY_CHOICE: frozenset[Choice] = frozenset({"auto", "none", "required", "named", "subset"})
ANY_MEDIA = frozenset({"image", "audio", "video", "file"})


class ProviderLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a provider, with their date and source. None: no known limit."""

    tools: int | None = None
    """Maximum tools per request."""
    name: str = r"[a-zA-Z0-9_-]{1,64}"
    """Pattern of a tool's name."""
    name_length: int = 64
    """Maximum characters of a tool's name."""
    call_id: str = r"[^\0]{1,64}"
    """Pattern of a call's id."""
    call_id_length: int = 64
    """Maximum characters of a call's id."""
    description: int | None = None
    """Maximum characters in a tool's description."""
    parameter_types: frozenset[str] = frozenset()
    """Types that a parameter can have, including `map` (arbitrary keys) and `any`; others are converted (a
    Loss). Set from the dialect."""
    request_bytes: int | None = None
    """Maximum bytes of a request."""
    cache_marks: int | None = None
    """Maximum marks for the prompt cache in a request."""
    stops: int | None = None
    """Maximum stop sequences per request."""
    context: int | None = None
    """Maximum tokens of prompt and answer together; depends on the model."""
    answer: int | None = None
    """Maximum tokens of an answer."""
    as_of: str = ""
    """The date on which the limits were compared."""
    source: str = ""
    """The source of the limits, as of that date."""


class ToolFeatures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can do with tools at this endpoint. Anything else is emulated or reported as a Loss."""

    choices: frozenset[Choice] = ANY_CHOICE
    """The kinds of `tool_choice` that it accepts."""
    parallel: bool = True
    """Several calls in one turn."""
    streaming: bool = True
    """Replies can be streamed, including those with calls."""
    parallel_off: bool = True
    """Parallel calls can be disabled."""
    streamed_arguments: bool = True
    """A call's arguments arrive in pieces (`ToolCallDelta`); otherwise each call arrives whole."""
    strict: bool = True
    """Calls can be guaranteed to follow the schema."""
    freeform: bool = False
    """Tools that take plain text instead of JSON."""
    namespaces: bool = False
    """Tools can be grouped in namespaces."""
    tool_search: bool = False
    """Deferred tools, whose schemas the model loads through a search by the provider or the caller."""
    tool_changes: bool = False
    """Tools can be added during a conversation without changing the earlier ones."""
    hosted: bool = False
    """Tools that the provider runs itself, such as its web search."""
    error_flag: bool = False
    """A result can be marked as an error; otherwise its text says so."""
    examples: bool = False
    """Example calls have their own field; otherwise they are part of the description."""
    result_media: frozenset[str] = frozenset()
    """Kinds of media that a tool result may contain."""
    typed: frozenset[str] = frozenset()
    """Types of native tools, whose schemas the model knows and which the caller runs."""
    limits: ProviderLimits = ProviderLimits()
    """The limits of the profile."""


class HistoryRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a provider requires of a conversation, besides paired calls and results."""

    calls_last: bool = False
    """No text may follow a call within a turn."""
    starts_with_user: bool = False
    ends_with_user: bool = False
    """No prefill (an answer that the caller begins)."""
    plain_prefill: bool = False
    """A prefill has no thinking and no trailing white space."""
    no_blank_text: bool = False
    filler_after_results: bool = False
    """An assistant message is required between results and the user's next message."""
    needs_turn: bool = False
    """A request needs a message besides the instructions."""


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float
    """For input."""
    cached: float
    """For input read from the prompt cache."""
    output: float
    """For output, including reasoning."""
    as_of: str = ""
    """The date of the price."""
    cache_write: float | None = None
    """For input written to the prompt cache, if that costs more than other input."""

    def cost(self, usage: Usage) -> float:
        """Return the cost in US dollars."""
        written = usage.cache_write if self.cache_write is not None else 0
        uncached = max(0, usage.input - usage.cached - written)
        cost = uncached * self.input + usage.cached * self.cached + usage.output * self.output
        return (cost + written * (self.cache_write or 0.0)) / 1_000_000


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One vendor's endpoint, resolved for one model."""

    id: str
    """The name of the provider in PROVIDER:MODEL."""
    title: str
    """Its name for people."""
    wire: str
    """The format of its API."""
    base_url: str = ""
    """The address of the API; may contain the same placeholders as `path`."""
    path: str = ""
    """May contain the placeholders {model}, {project}, {location} and {version}."""
    stream_path: str = ""
    """The path for streamed replies, if it is another one."""
    models_path: str = ""
    """The path at which the provider lists its models; "" if there is none."""
    auth: Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "optional"] = "bearer"
    """The header that carries the key. optional: bearer, if there is a key."""
    key_env: tuple[str, ...] = ()
    """Environment variables with the key, the first one first."""
    token_env: tuple[str, ...] = ()
    """Environment variables with a token, which is sent as a bearer token."""
    sign_in: str = ""
    """How to obtain a token without a key: entra (Microsoft), adc (Google's application default credentials),
    copilot (GitHub), or the name of a plug-in."""
    model: str = ""
    """The model that the profile is resolved for."""

    limits: ProviderLimits = ProviderLimits()
    """What the provider limits."""
    features: ToolFeatures = ToolFeatures()
    """What the model can do with tools."""
    history: HistoryRules = HistoryRules()
    """What the provider requires of a conversation."""
    dialect: str = "COMPATIBLE"
    """The name in `schema.dialects` of the JSON Schemas that it accepts."""
    strict_dialect: str = ""
    """Names in schema.dialects; "" if there is no strict mode."""

    max_tokens: str = "max_tokens"
    """The name of the field in requests."""
    default_max_tokens: int | None = None
    """Sent if the caller sets no limit and the provider requires one."""
    system_role: str = "system"
    """The role of instructions in requests."""
    sampling: Literal["all", "one", "none"] = "all"
    """Which of temperature, top_p, top_k and the penalties are accepted; one: temperature or top_p, but not
    both."""
    options: frozenset[str] = frozenset(
        {"temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty"}
    )
    """The names of the `Options` that it accepts, besides those with fields of their own here."""
    max_temperature: float = 2.0
    """The highest temperature that it accepts."""
    efforts: tuple[str, ...] = ()
    """Levels of reasoning effort, lowest first."""
    thinking_budget: bool = False
    """Reasoning can be limited to a number of tokens."""
    cache_field: Literal["", "cache_control", "prompt_cache_breakpoint"] = ""
    """The field that marks a part for the prompt cache; "": none, the provider chooses what it caches."""
    cache_ttls: tuple[str, ...] = ()
    """Times to live that a mark can request, shortest first."""
    media: frozenset[str] = frozenset({"image"})
    """Kinds of media that a user message may contain."""
    json_output: Literal["schema", "object", "none"] = "schema"
    """How replies can be held to JSON: to a schema, to any object, or not at all."""
    empty_content: Literal["null", "empty", "omit"] = "null"
    """The content of an assistant message that only calls tools."""
    reasoning_echo: Literal["no", "own", "required"] = "own"
    """Reasoning text in the history: never sent, sent back to its origin, or required on every turn with
    calls."""
    raw_arguments: bool = False
    """Arguments of its own calls are accepted even if they are no JSON object; other servers parse them
    (llama.cpp, vLLM)."""
    result_name: bool = False
    """A tool message also names its tool."""
    signatures: bool = False
    """Gemini 3: the first call of a turn carries a thoughtSignature."""
    call_ids: bool = True
    """Calls and results have ids."""
    text_calls: bool = False
    """Servers may leave calls in the text, because they do not know the model's call format. Such calls are
    parsed from it."""
    state: Literal["model", "profile"] = "profile"
    """Whether opaque state is bound to the model or to the profile."""
    headers: dict[str, str] = {}
    """Sent with every request."""
    defaults: dict[str, Any] = {}
    """Body fields that the engine adds unless the caller sets them."""
    stream_defaults: dict[str, Any] = {}
    """The same for streamed replies."""
    base_env: tuple[str, ...] = ()
    """Environment variables that override the base URL, as in the vendor's own SDK."""
    url_parameter_env: dict[str, tuple[str, ...]] = {}
    """Placeholder in the URL -> environment variables with its value."""
    price: Price | None = None
    """What the model costs; None: unknown."""
    notes: tuple[str, ...] = ()
    """Quirks that a contributor should know, one sentence each."""

    def __post_init__(self) -> None:
        # Computed here so that both stay correct when a profile is changed for a model or healed.
        limits = replace(self.limits, parameter_types=getattr(dialects, self.dialect).parameter_types)
        force_setattr(self, "limits", limits)
        force_setattr(self, "features", replace(self.features, limits=limits))

    @property
    def accepted_options(self) -> frozenset[str]:
        """The options without those that `sampling` excludes."""
        return self.options if self.sampling != "none" else self.options & {"stop", "seed"}

    def apply(self, changes: dict[str, Any]) -> "Profile":
        """Return a copy with changed fields. A key may name a nested field: `features.strict`."""
        fields: dict[str, Any] = {}
        for key, value in changes.items():
            part, _, name = key.rpartition(".")
            if part:
                fields[part] = replace(fields.get(part) or getattr(self, part), **{name: value})
            else:
                fields[key] = value
        return replace(self, **fields)
