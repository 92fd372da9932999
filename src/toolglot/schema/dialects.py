"""DATA: what each wire accepts as the schema of a tool's parameters, one row a dialect.

Nothing here decides. `lower` reads a row and obeys it; a limit that goes stale is corrected here and nowhere else. The
rows are as of November 2026; a comment names the rule or error that a value answers to.
"""

from typing import Literal

import msgspec

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_STRICT",
    "COMPATIBLE",
    "COMPATIBLE_INLINE",
    "DEEPSEEK_STRICT",
    "DIALECTS",
    "GEMINI",
    "GEMINI_OPENAPI",
    "OLLAMA",
    "OPENAI",
    "OPENAI_STRICT",
    "OPENROUTER_GOOGLE",
    "Dialect",
    "StrictLimits",
]


class StrictLimits(msgspec.Struct, frozen=True):
    """How much a strict mode compiles. tools, optional, unions: all strict tools of a request; the rest: per tool."""

    tools: int | None = None
    optional: int | None = None
    unions: int | None = None
    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None


class Dialect(msgspec.Struct, frozen=True):
    """What one wire accepts. The defaults are an open dialect: any JSON Schema below a plain object root."""

    name: str
    keywords: frozenset[str] | None = None
    """The keywords that may stay. None: all of them, they are prompt text (an open dialect)."""
    dropped_keywords: frozenset[str] = frozenset()
    """The keywords that may not stay in an open dialect."""
    formats: frozenset[str] | None = None
    """The values of `format` that may stay."""
    enum_types: frozenset[str] | None = None
    """The JSON types that the values of an `enum` may have."""
    allows_empty_enum_value: bool = True
    """An enum may hold the empty string."""
    max_min_items: int | None = None
    """The largest `minItems` that may stay."""
    refs: Literal["free", "wrap", "alone", "inline"] = "free"
    """free: stay. wrap: stay, siblings go around them. alone: stay when nothing stands beside them. inline: never."""
    recursion: Literal["free", "optional", "never"] = "free"
    """optional: a cycle may only close inside a property that may be left out."""
    type_lists: Literal["any", "scalars", "never"] = "any"
    uses_nullable: bool = False
    """Null is said with OpenAPI's `nullable: true`."""
    isolates_unions: bool = False
    """Nothing may stand beside `anyOf`."""
    maps: Literal["keep", "pairs", "describe"] = "keep"
    """pairs: an object with free keys becomes an array of {key, value}."""
    allows_untyped: bool = True
    """An untyped value and an object of unknown keys can be said. Otherwise they are asked for as JSON text."""
    allows_empty_objects: bool = True
    """An object below the root that never has a key can be said."""
    allows_bare_arrays: bool = False
    """An array may lack `items`."""
    closes_objects: bool = False
    """Every object says `additionalProperties: false`."""
    requires_all: bool = False
    """Every property is required; an optional one is nullable."""
    name_pattern: str = ""
    """The pattern of property names."""
    checks_nested_names: bool = False
    """`names` holds for all objects, not for the root alone."""
    keeps_root_description: bool = True
    """The root's description reaches the model."""
    limits: StrictLimits = StrictLimits()

    @property
    def is_open(self) -> bool:
        """Whether the wire takes any keyword as prompt text."""
        return self.keywords is None

    def allows(self, keyword: str) -> bool:
        """Whether the keyword may stay in a schema."""
        return keyword not in self.dropped_keywords if self.keywords is None else keyword in self.keywords


_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_CORE = frozenset({"type", "description", "properties", "required", "items", "enum", "anyOf"})
_REFS = frozenset({"$ref", "$defs"})
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_STRING_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_NUMBER_FORMATS = frozenset({"int32", "int64", "float", "double"})

# "schema must have type 'object' and not have 'oneOf'/'anyOf'/… at the top level"; "array schema missing items".
OPENAI = Dialect("openai")

OPENAI_STRICT = Dialect(
    "openai-strict",
    keywords=_CORE
    | _REFS
    | _BOUNDS
    | _LENGTHS  # lengths: on api.openai.com only
    | {"additionalProperties", "pattern", "format", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    formats=_STRING_FORMATS,
    enum_types=_SCALARS,
    refs="wrap",
    maps="pairs",
    allows_untyped=False,
    closes_objects=True,
    requires_all=True,
    limits=StrictLimits(depth=10, properties=5000, enum_values=1000),
)

# "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", for the top level only.
ANTHROPIC = Dialect("anthropic", allows_bare_arrays=True, name_pattern=r"[a-zA-Z0-9_.-]{1,64}")

# allOf would be kept, but its closed branches could not be true together: it is merged.
ANTHROPIC_STRICT = Dialect(
    "anthropic-strict",
    keywords=_CORE | _REFS | {"additionalProperties", "format", "minItems"},
    formats=_STRING_FORMATS | {"uri"},
    enum_types=_SCALARS,
    max_min_items=1,
    refs="alone",  # the official SDK drops what stands beside a $ref
    recursion="never",  # "Circular reference detected in schema definitions"
    maps="pairs",
    allows_untyped=False,
    closes_objects=True,
    name_pattern=ANTHROPIC.name_pattern,
    limits=StrictLimits(tools=20, optional=24, unions=16),
)

# `parametersJsonSchema`. What it documents as ignored counts as not said.
GEMINI = Dialect(
    "gemini",
    keywords=_CORE | _REFS | _BOUNDS | {"additionalProperties", "format", "prefixItems", "propertyOrdering"},
    formats=_NUMBER_FORMATS,
    enum_types=frozenset({"string", "number", "integer"}),
    refs="alone",
    recursion="optional",
    type_lists="never",  # Vertex rewrites them to any_of beside what else is there
    isolates_unions=True,  # Vertex: "When using any_of, it must be the only field set"
    maps="pairs",  # pydantic/pydantic-ai#2588: "that field will always be empty"
    allows_bare_arrays=True,
)

# `parameters`, the OpenAPI 3.0 subset: any other keyword is 400 `Unknown name "const" … Cannot find field`.
GEMINI_OPENAPI = Dialect(
    "gemini-openapi",
    keywords=_CORE
    | _BOUNDS
    | _LENGTHS
    | {"nullable", "format", "pattern", "minProperties", "maxProperties", "propertyOrdering", "default"},
    formats=_NUMBER_FORMATS | {"date-time", "enum"},  # "only 'enum' and 'date-time' are supported for STRING type"
    enum_types=frozenset({"string"}),  # Schema.enum is repeated string
    allows_empty_enum_value=False,  # "enum[0]: cannot be empty"
    refs="inline",
    recursion="never",
    type_lists="never",  # "Proto field is not repeating, cannot start list"
    uses_nullable=True,
    isolates_unions=True,
    maps="pairs",
    allows_untyped=False,
    allows_empty_objects=False,  # "should be non-empty for OBJECT type"
    name_pattern=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    checks_nested_names=True,
)

# api/types.go keeps these and drops the rest without a word; a description of the root is among the rest.
OLLAMA = Dialect(
    "ollama",
    keywords=_CORE,
    enum_types=_SCALARS,
    refs="inline",
    recursion="never",
    maps="describe",
    allows_bare_arrays=True,
    keeps_root_description=False,
)

# Mistral, Groq, DeepSeek, xAI and whoever else speaks OpenAI's Chat Completions.
COMPATIBLE = Dialect("compatible", dropped_keywords=frozenset({"title", "$schema", "$id", "examples", "discriminator"}))

# Grok on Azure, GLM: the same, without references.
COMPATIBLE_INLINE = msgspec.structs.replace(COMPATIBLE, name="compatible-inline", refs="inline", recursion="never")

# Base `/beta`. Documented as a subset of OpenAI's; a $ref inside anyOf fails, so none is left.
DEEPSEEK_STRICT = Dialect(
    "deepseek-strict",
    keywords=_CORE | {"additionalProperties", "format"},
    formats=frozenset({"email", "hostname", "ipv4", "ipv6", "uuid"}),
    enum_types=_SCALARS,
    refs="inline",
    recursion="never",
    type_lists="scalars",
    maps="pairs",
    allows_untyped=False,
    allows_empty_objects=False,
    closes_objects=True,
    requires_all=True,
)

# For `google/*` models OpenRouter makes Gemini's `parameters` of the schema: that subset arrives there safely.
OPENROUTER_GOOGLE = msgspec.structs.replace(GEMINI_OPENAPI, name="openrouter-google")

DIALECTS = (
    OPENAI,
    OPENAI_STRICT,
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI,
    GEMINI_OPENAPI,
    OLLAMA,
    COMPATIBLE,
    COMPATIBLE_INLINE,
    DEEPSEEK_STRICT,
    OPENROUTER_GOOGLE,
)

# How a keyword that a dialect cannot say is told in a description.
KEYWORD_PHRASES = {
    "additionalProperties": "Other keys hold: {json}.",
    "anyOf": "At least one of: {text}.",
    "const": "Always {json}.",
    "contains": "One item must match: {json}.",
    "contentEncoding": "Encoding: {text}.",
    "contentMediaType": "Media type: {text}.",
    "contentSchema": "The decoded text must match: {json}.",
    "default": "Default: {json}.",
    "dependentRequired": "Keys that need other keys: {json}.",
    "dependentSchemas": "Keys that need more to hold: {json}.",
    "deprecated": "Deprecated.",
    "else": "Otherwise it must match: {json}.",
    "enum": "One of: {list}.",
    "example": "Example: {json}.",
    "examples": "Examples: {list}.",
    "exclusiveMaximum": "Less than {json}.",
    "exclusiveMinimum": "Greater than {json}.",
    "format": "Format: {text}.",
    "if": "If it matches: {json}.",
    "maxContains": "At most {json} such items.",
    "maxItems": "At most {json} items.",
    "maxLength": "At most {json} characters.",
    "maxProperties": "At most {json} keys.",
    "maximum": "At most {json}.",
    "minContains": "At least {json} such items.",
    "minItems": "At least {json} items.",
    "minLength": "At least {json} characters.",
    "minProperties": "At least {json} keys.",
    "minimum": "At least {json}.",
    "multipleOf": "A multiple of {json}.",
    "not": "Must not match: {json}.",
    "oneOf": "Exactly one of: {text}.",
    "pattern": "Must match pattern {text}.",
    "patternProperties": "Keys by pattern hold: {json}.",
    "prefixItems": "Items in order: {text}.",
    "propertyNames": "Keys must match: {json}.",
    "required": "Required: {list}.",
    "then": "Then it must match: {json}.",
    "type": "Type: {json}.",
    "uniqueItems": "No item twice.",
}
# Dropped without a word: they say nothing to a model, or what they say has been said otherwise by then.
SILENT_KEYWORDS = frozenset(
    {"title", "$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "discriminator", "readOnly", "writeOnly"}
    | {"nullable", "properties", "items", "additionalItems", "propertyOrdering"}
)
