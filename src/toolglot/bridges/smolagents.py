"""smolagents: its tools in our registry, and our tools in its agents."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# The package is annotated, but has no py.typed.

from base64 import b64decode
from collections.abc import Iterable
from io import BytesIO
from keyword import iskeyword
from pathlib import Path
from typing import Any, ClassVar, Unpack, cast

from toolglot.bridges.exported_tools import ExportedTools, ExportOptions
from toolglot.bridges.imported_tools import make_tool
from toolglot.bridges.messages import explain_missing
from toolglot.common.jsontext import dumps_text
from toolglot.common.value_checks import as_items
from toolglot.errors import ToolError, UsageError
from toolglot.loop.agent.config import AnyTools
from toolglot.loop.background_loop import run_sync
from toolglot.tools.options import SchemaToolOptions
from toolglot.tools.tool import Tool
from toolglot.values.messages import Media, Text
from toolglot.values.request import ToolDefinition

try:
    from PIL import Image
    from smolagents import AgentAudio, AgentImage, AgentText
    from smolagents import Tool as SmolTool
    from smolagents.models import get_tool_json_schema
    from smolagents.tools import AUTHORIZED_TYPES
except ImportError as e:
    raise explain_missing(e, "smolagents", "smolagents") from None

__all__ = ["export_tools", "import_tools"]


def import_tools(tools: Iterable[SmolTool], **options: Unpack[SchemaToolOptions]) -> list[Tool]:
    """Return smolagents tools as ours. Images and audio that they return become media in the result."""
    return [import_tool(tool, options) for tool in as_items(tools)]


def import_tool(tool: SmolTool, options: SchemaToolOptions) -> Tool:
    """Return a smolagents tool as ours."""

    # This name must not clash with a parameter.
    def run_tool(toolglot_arguments: dict[str, Any]) -> Any:
        output: Any = cast(Any, tool)(**toolglot_arguments, sanitize_inputs_outputs=True)
        if isinstance(output, AgentImage):
            return output.to_raw()
        if isinstance(output, AgentAudio):
            path = Path(cast(str, output.to_string()))
            return Media.from_bytes(path.read_bytes(), "audio/wav", name=path.name)
        return str(output) if isinstance(output, AgentText) else output

    function = cast(dict[str, Any], get_tool_json_schema(tool))["function"]
    return make_tool(tool.name, tool.description, function["parameters"], run_tool, options)


def export_tools(tools: AnyTools, **options: Unpack[ExportOptions]) -> list[SmolTool]:
    """Return our tools as smolagents tools, for one conversation.

    Calls that need approval are refused without `approve`.

    smolagents schemas have one level: nested structure goes into the parameter's description.
    """
    exported = ExportedTools(tools, **options)
    smol_tools = [
        _ExportedTool(exported, name, definition) for name, definition in exported.definitions().items()
    ]
    names = [tool.name for tool in smol_tools]
    if duplicate := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"two tools would be named {duplicate!r} in smolagents; rename one of them")
    return list[SmolTool](smol_tools)


class _ExportedTool(SmolTool):
    """One of our tools."""

    skip_forward_signature_validation = True
    name: str = ""
    description: str = ""
    inputs: ClassVar[dict[str, Any]] = {}
    output_type = "any"

    def __init__(self, exported: ExportedTools, name: str, definition: ToolDefinition) -> None:
        self._exported, self.name = exported, name.replace("-", "_").replace(".", "_")
        if not self.name.isidentifier() or iskeyword(self.name):
            raise UsageError(
                f"the tool {name!r} cannot be used in smolagents: its name must be a Python identifier; "
                "rename it"
            )
        self._own_name, self.description = name, definition.description
        schema = definition.parameters or {}
        required = schema.get("required", ())
        properties = cast(dict[str, dict[str, Any]], schema.get("properties", {}))
        self.inputs = {  # pyright: ignore[reportIncompatibleVariableOverride, reportAttributeAccessIssue]
            key: describe_input(value, schema, is_required=key in required)
            for key, value in properties.items()
        }
        super().__init__()

    def forward(self, *args: Any, **arguments: Any) -> Any:
        if len(args) > len(self.inputs):
            raise ToolError(f"{self.name} takes {len(self.inputs)} arguments but was given {len(args)}")
        arguments = {**dict(zip(self.inputs, args, strict=False)), **arguments}
        # Omitted parameters are None here.
        for key, field in self.inputs.items():
            if field.get("nullable") and arguments.get(key) is None:
                arguments.pop(key, None)
        call = self._exported.make_call(self._own_name, arguments)
        result = run_sync(self._exported.run_or_refuse(call)).result
        if result.is_error:
            raise ToolError(result.text)
        texts = [block.text for block in result.content if isinstance(block, Text)]
        media = [block for block in result.content if isinstance(block, Media)]
        if not texts and len(media) == 1:
            (block,) = media
            if block.kind == "image" and block.data is not None:
                return Image.open(BytesIO(b64decode(block.data)))
        left_out = [f"[{block.kind} left out: smolagents accepts only text here]" for block in media]
        return "\n".join([*texts, *left_out])


def describe_input(schema: dict[str, Any], root: dict[str, Any], *, is_required: bool) -> dict[str, Any]:
    """Return a parameter as smolagents describes it."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:  # it may be null
        schema = {**_without(schema, "anyOf"), **choices[0]}
    kind = schema.get("type")
    types = cast(list[str], kind if isinstance(kind, list) else [kind])
    if not all(name in AUTHORIZED_TYPES for name in types):
        kind = "any"
    description = str(schema.get("description", ""))
    has_form = bool(schema.keys() - {"type", "description", "title", "default"})
    if has_form and kind in ("any", "object", "array"):  # smolagents would show the type only
        form = _without(schema, "description", "title")
        if "$defs" in root and "$ref" in dumps_text(form):
            form["$defs"] = root["$defs"]
        description = f"{description} (JSON Schema: {dumps_text(form)})".strip()
    described = {"type": kind, "description": description or "No description."}
    if "enum" in schema:
        described["enum"] = schema["enum"]
    if not is_required:
        described["nullable"] = True
    return described


def _without(schema: dict[str, Any], *keywords: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keywords}
