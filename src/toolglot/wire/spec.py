"""The wires, one row each.

A new wire is one row here and one package beside it; nothing else must know its name.

A package has four modules: `request_encode`, `request_decode`, `reply_decode` and `reply_encode`.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from toolglot.common.plugins import find_plugin, plugin_error, plugin_names
from toolglot.errors import UnknownName
from toolglot.wire.json_values import snake_to_camel

OPENAI_CHAT = "openai-chat"
OPENAI_RESPONSES = "openai-responses"
ANTHROPIC_MESSAGES = "anthropic-messages"
GEMINI = "gemini"
OLLAMA_CHAT = "ollama-chat"


SAMPLING = ("temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty")


class WireSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest of the project needs to know about a wire."""

    name: str
    package: str
    class_prefix: str
    """Its classes are `<prefix>ReplyDecoder` and `<prefix>ReplyEncoder`."""
    default_profile: str
    """The profile that is used if the caller names only the wire."""
    history_field: str = "messages"
    """The field of a request that holds the conversation."""
    family: str = ""
    """`Request.extras` under this name are sent on every wire of the family."""
    options: dict[str, str]
    """Name of a generation option -> its field on this wire. Some wires treat the maximum number of tokens
    apart."""
    stateful_extras: frozenset[str] = frozenset()
    """Request fields that make the provider supply a part of the history."""
    stream_type: str = "text/event-stream"
    frame_end: bytes = b"\n\n"
    streams_by_default: bool = False
    object_arguments: bool = False
    """Arguments of calls are JSON objects, not JSON text."""
    output_with_tools: bool = False
    """Structured output can be requested together with tools."""
    output_dialect: str = ""
    """The schema dialect of structured output, where it always constrains the model; "" if schemas are sent
    as they are."""
    hosted_tools: dict[str, dict[str, Any]] = {}
    """Our name of a tool that the provider runs -> its definition."""
    tool_changes: Literal["", "definitions", "references"] = ""
    """How the history brings tools: by whole definitions, or by references to deferred tools of the head."""
    search_tool: dict[str, Any] = {}
    """The provider's own search for deferred tools."""
    paths: tuple[tuple[str, str], ...] = ()
    """For the simulator: pattern of a URL path -> profile, "" for the default one."""
    path_hint: str = ""
    """For the simulator: part of an unknown path that suggests this wire's form of errors."""
    reply_id_prefix: str = "sim-"
    call_id_prefix: str = "call_"


_ROWS = (
    WireSpec(
        name=OPENAI_CHAT,
        package="toolglot.wire.openai_chat",
        class_prefix="Chat",
        default_profile="openai-chat",
        family="openai",
        options={name: name for name in SAMPLING},
        output_with_tools=True,
        paths=(
            (r"/openai/deployments/(?P<model>[^/]+)/chat/completions", "azure-dated-chat"),
            (r"/deployments/(?P<model>[^/]+)/chat/completions", "azure-dated-chat"),
            (r"/openai/v1/chat/completions", "azure-chat"),
            (r"(/api)?(/v1|/beta)?/chat/completions", ""),
        ),
        reply_id_prefix="chatcmpl-",
    ),
    WireSpec(
        name=OPENAI_RESPONSES,
        package="toolglot.wire.openai_responses",
        class_prefix="Responses",
        default_profile="openai-responses",
        history_field="input",
        family="openai",
        options={"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"},
        stateful_extras=frozenset({"previous_response_id", "conversation", "prompt"}),
        output_with_tools=True,
        hosted_tools={
            "web_search": {"type": "web_search"},
            "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
        },
        tool_changes="definitions",
        search_tool={"type": "tool_search"},
        paths=(
            (r"/openai/v1/responses(?P<action>/compact|/input_tokens)?", "azure-responses"),
            (r"/openai/responses", "azure-dated-responses"),
            (r"(/api)?(/v1)?/responses(?P<action>/compact|/input_tokens)?", ""),
        ),
        path_hint="respons",
        reply_id_prefix="resp_",
    ),
    WireSpec(
        name=ANTHROPIC_MESSAGES,
        package="toolglot.wire.anthropic",
        class_prefix="Anthropic",
        default_profile="anthropic",
        options={
            **{name: name for name in ("max_tokens", "temperature", "top_p", "top_k")},
            "stop": "stop_sequences",
        },
        output_with_tools=True,
        output_dialect="ANTHROPIC_STRICT",
        hosted_tools={
            "web_search": {"type": "web_search_20250305", "name": "web_search"},
            "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
        },
        tool_changes="references",
        search_tool={"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        paths=((r"(/api|/anthropic)?(/v1)?/messages(?P<action>/count_tokens)?", ""),),
        path_hint="messages",
        reply_id_prefix="msg_",
        call_id_prefix="toolu_",
    ),
    WireSpec(
        name=GEMINI,
        package="toolglot.wire.gemini",
        class_prefix="Gemini",
        default_profile="gemini",
        history_field="contents",
        options={
            **{name: snake_to_camel(name) for name in SAMPLING},
            "max_tokens": "maxOutputTokens",
            "stop": "stopSequences",
        },
        object_arguments=True,
        hosted_tools={"web_search": {"googleSearch": {}}, "code_execution": {"codeExecution": {}}},
        paths=(
            (
                r"(/v1|/v1beta1)?(/projects/[^/]+/locations/[^/]+)?/publishers/google/models/(?P<model>[^/:]+):(?P<verb>\w+)",
                "vertex",
            ),
            (r"(/v1|/v1beta1?)?/models/(?P<model>[^/:]+):(?P<verb>\w+)", ""),
        ),
        path_hint="models/",
        call_id_prefix="fc_",
    ),
    WireSpec(
        name=OLLAMA_CHAT,
        package="toolglot.wire.ollama",
        class_prefix="Ollama",
        default_profile="ollama",
        options={"max_tokens": "num_predict", **{name: name for name in SAMPLING}},
        stream_type="application/x-ndjson",
        frame_end=b"\n",
        streams_by_default=True,
        object_arguments=True,
        paths=((r"/api/chat", ""),),
        path_hint="/api/",
    ),
)


class _WireTable(dict[str, WireSpec]):
    """The wires by name. One of a plug-in is added when it is first looked up."""

    def __missing__(self, name: str) -> WireSpec:
        spec = find_plugin("wires", name)
        if spec is None:
            raise KeyError(name)
        if not isinstance(spec, WireSpec) or spec.name != name:
            raise plugin_error("wires", name, f"is not a WireSpec with the name {name!r}")
        self[name] = spec
        return spec


SPECS: dict[str, WireSpec] = _WireTable({spec.name: spec for spec in _ROWS})
WIRES = tuple(SPECS)


def check_extras(extras: Iterable[str]) -> None:
    """Raise UnknownName for a key of extras that is neither a wire nor a family of wires: its fields would
    never be sent.
    """
    for name in extras:
        known = {*SPECS, *plugin_names("wires"), *(spec.family for spec in _ROWS if spec.family)}
        if name not in known:
            raise UnknownName("wire in extras", name, known)
