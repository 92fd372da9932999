"""DATA: what each wire accepts as the schema of a tool's parameters, one row per dialect.

Nothing here decides: `lower` reads a row and obeys it, and a rule that has become stale is corrected here and
nowhere else. The rows are as of November 2026; comments name the rule or error that a value answers to.
"""

from typing import Literal

import msgspec


class StrictLimits(msgspec.Struct, frozen=True):
    """How much a strict mode compiles.

    `tools`, `optional` and `unions` count over a request; the others per tool.
    """

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
    """The keywords that may stay. None: all of them; the wire passes the schema to the model as text (an open
    dialect)."""
    dropped_keywords: frozenset[str] = frozenset()
    """The keywords that an open dialect does not take."""
    formats: frozenset[str] | None = None
    """The values of `format` that may stay."""
    enum_types: frozenset[str] | None = None
    """The JSON types that the values of an `enum` may have."""
    allows_empty_enum_value: bool = True
    max_min_items: int | None = None
    """The largest `minItems` that may stay."""
    refs: Literal["free", "wrap", "alone", "inline"] = "free"
    """free: kept. wrap: kept, in an anyOf that carries the siblings. alone: kept if there are no siblings.
    inline: expanded."""
    recursion: Literal["free", "optional", "never"] = "free"
    """Of references that are kept. optional: a cycle may only close inside a property that is not
    required."""
    allows_type_lists: bool = True
    uses_nullable: bool = False
    """Null is written as OpenAPI's `nullable: true`."""
    isolates_unions: bool = False
    """Nothing may stand beside `anyOf`."""
    maps_as_pairs: bool = False
    """An object with free keys becomes an array of {key, value}."""
    allows_untyped: bool = True
    """A value of any type and an object of unknown keys are legal. Otherwise they are asked for as JSON
    text."""
    allows_empty_objects: bool = True
    """An object below the root may have no properties at all."""
    allows_bare_arrays: bool = False
    """An array may lack `items`."""
    closes_objects: bool = False
    """Every object must have `additionalProperties: false`."""
    requires_all: bool = False
    """Every property must be required; an optional one becomes nullable."""
    name_pattern: str = ""
    """The pattern of property names."""
    checks_nested_names: bool = False
    """`name_pattern` applies to all objects, not only to the root."""
    keeps_root_description: bool = True
    """The root's description reaches the model."""
    limits: StrictLimits = StrictLimits()

    @property
    def is_open(self) -> bool:
        """Whether the wire passes any keyword on to the model."""
        return self.keywords is None

    @property
    def parameter_types(self) -> frozenset[str]:
        """The types that a parameter can have as such; also `map` (an object with free keys) and `any`."""
        has_maps = self.allows("additionalProperties") and not self.maps_as_pairs
        special = {"null": not self.uses_nullable, "map": has_maps, "any": self.allows_untyped}
        types = ("string", "number", "integer", "boolean", "array", "object")
        return frozenset({*types, *(name for name, is_allowed in special.items() if is_allowed)})

    def allows(self, keyword: str) -> bool:
        """Whether the keyword may stay in a schema."""
        return keyword not in self.dropped_keywords if self.keywords is None else keyword in self.keywords


_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_CORE = frozenset({"type", "description", "properties", "required", "items", "enum", "anyOf"})
_REFS = frozenset({"$ref", "$defs"})
_BOUNDS = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_LENGTHS = frozenset({"minLength", "maxLength"})
_STRING_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_NUMBER_FORMATS = frozenset({"int32", "int64", "float", "double"})

# Not strict: the schema is prompt text. Refused are a root that is no plain object ("schema must have type
# 'object' and not have 'oneOf'/'anyOf'/… at the top level") and an array without items ("array schema missing
# items").
OPENAI = Dialect("openai")

# The subset of function tools with `strict`. Depth and number of properties: as tested live by pydantic-ai
# 2.66 in 2026.
OPENAI_STRICT = Dialect(
    "openai-strict",
    keywords=_CORE
    | _REFS
    | _BOUNDS
    | _LENGTHS  # accepted on api.openai.com, not by servers that imitate it
    | {"additionalProperties", "pattern", "format", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    formats=_STRING_FORMATS,
    enum_types=_SCALARS,
    refs="wrap",  # a $ref with siblings is refused; inside an anyOf they may stand beside that
    maps_as_pairs=True,  # every object must have `additionalProperties: false`
    allows_untyped=False,  # the items of an array must have a type
    closes_objects=True,
    # "'required' is required to be supplied and to be an array including every key in properties"
    requires_all=True,
    limits=StrictLimits(depth=10, properties=5000, enum_values=1000),
)

# Takes nearly anything below the root. "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'" is
# checked there only.
ANTHROPIC = Dialect("anthropic", allows_bare_arrays=True, name_pattern=r"[a-zA-Z0-9_.-]{1,64}")

# What the SDK's `transform_schema` (anthropic 2.8.0) leaves. allOf would be legal, but branches that are
# closed exclude each
# other: it is merged.
ANTHROPIC_STRICT = Dialect(
    "anthropic-strict",
    keywords=_CORE | _REFS | {"additionalProperties", "format", "minItems"},
    formats=_STRING_FORMATS | {"uri"},
    enum_types=_SCALARS,
    max_min_items=1,  # transform_schema moves every other value into the description
    refs="alone",  # the official SDK drops what stands beside a $ref
    recursion="never",  # "Circular reference detected in schema definitions"
    maps_as_pairs=True,
    allows_untyped=False,
    closes_objects=True,
    name_pattern=ANTHROPIC.name_pattern,
    # "schema is too complex", "compiled grammar is too large"
    limits=StrictLimits(tools=20, optional=24, unions=16),
)

# `parametersJsonSchema` (google/ai/generativelanguage/v1beta/content.proto). What it documents as ignored
# (minLength, uniqueItems …) would never reach the model, so it goes into the description.
GEMINI = Dialect(
    "gemini",
    keywords=_CORE | _REFS | _BOUNDS | {"additionalProperties", "format", "prefixItems", "propertyOrdering"},
    formats=_NUMBER_FORMATS,
    enum_types=frozenset({"string", "number", "integer"}),
    refs="alone",  # content.proto: a $ref may only have siblings that start with a `$`
    recursion="optional",  # content.proto: cyclic references only within non-required properties
    allows_type_lists=False,  # a union instead, as for `parameters`
    isolates_unions=True,  # to be safe: nothing stands beside an anyOf
    maps_as_pairs=True,  # pydantic/pydantic-ai#2588: "that field will always be empty"
    allows_bare_arrays=True,
)

# `parameters`, the OpenAPI 3.0 subset: any other keyword is 400 `Unknown name …` (pydantic/pydantic-ai#3538).
# `google/*` models on OpenRouter get it: they need inlined references and simple nullables.
GEMINI_OPENAPI = Dialect(
    "gemini-openapi",
    keywords=_CORE
    | _BOUNDS
    | _LENGTHS
    | {"nullable", "format", "pattern", "minProperties", "maxProperties", "propertyOrdering", "default"},
    formats=_NUMBER_FORMATS | {"date-time", "enum"},  # `format: uri` was a 400 (aaif-goose/goose#1184)
    enum_types=frozenset({"string"}),  # content.proto: `repeated string enum`
    allows_empty_enum_value=False,  # "" is no legal member
    refs="inline",  # `ref` and `defs` are newer fields
    allows_type_lists=False,  # `nullable` or anyOf instead
    uses_nullable=True,
    isolates_unions=True,
    maps_as_pairs=True,
    allows_untyped=False,
    allows_empty_objects=False,  # "should be non-empty for OBJECT type"
    name_pattern=r"[a-zA-Z_][a-zA-Z0-9_]{0,63}",
    checks_nested_names=True,
)

# Ollama's api/types.go decodes these and drops everything else without an error, also the description of the
# root.
OLLAMA = Dialect(
    "ollama",
    keywords=_CORE,
    enum_types=_SCALARS,
    refs="inline",
    allows_bare_arrays=True,
    keeps_root_description=False,
)

# Mistral, Groq, DeepSeek, xAI and other servers that speak OpenAI's Chat Completions. The dropped keywords
# tell a model nothing.
COMPATIBLE = Dialect(
    "compatible", dropped_keywords=frozenset({"title", "$schema", "$id", "examples", "discriminator"})
)

DIALECTS = tuple(value for value in list(globals().values()) if isinstance(value, Dialect))

# The sentence that replaces a keyword which a dialect does not support.
KEYWORD_PHRASES = {
    "additionalProperties": "Values of other keys: {json}.",
    "anyOf": "At least one of: {text}.",
    "const": "Always {json}.",
    "contains": "One item must match: {json}.",
    "contentEncoding": "Encoding: {text}.",
    "contentMediaType": "Media type: {text}.",
    "contentSchema": "The decoded text must match: {json}.",
    "default": "Default: {json}.",
    "dependentRequired": "Keys that need other keys: {json}.",
    "dependentSchemas": "Keys that imply further conditions: {json}.",
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
    "patternProperties": "Values of keys by pattern: {json}.",
    "prefixItems": "Items in order: {text}.",
    "propertyNames": "Keys must match: {json}.",
    "required": "Required: {list}.",
    "then": "Then it must match: {json}.",
    "type": "Type: {json}.",
    "uniqueItems": "Items must be unique.",
}
# Dropped without a Loss: they tell a model nothing, or their meaning has been expressed otherwise by then.
SILENT_KEYWORDS = frozenset(
    {
        "title",
        "$schema",
        "$id",
        "$comment",
        "$anchor",
        "$defs",
        "definitions",
        "discriminator",
        "readOnly",
        "writeOnly",
    }
    | {"nullable", "properties", "items", "additionalItems", "propertyOrdering"}
)
