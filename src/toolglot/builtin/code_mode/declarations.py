"""Tools as a script sees them: names that are identifiers, and declarations for the model that writes the
script.
"""

import builtins
import json
import keyword
import re
from collections.abc import Iterable
from typing import Any, cast

from msgspec.structs import replace

from toolglot.builtin.code_mode.process import Language, ScriptTool
from toolglot.schema.json_schema import SchemaDocument, drop_keywords, map_children
from toolglot.values.definitions import Schema, ToolDefinition

__all__ = ["declare_tools", "list_script_tools"]

_PRIMITIVES = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
_PYTHON_TYPES = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
    "object": "dict",
}
_JAVASCRIPT_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_MAX_DEPTH = 12
_MAX_REFERENCES = 200
_JAVASCRIPT = """\
The code is the body of an async JavaScript function without Node, files, network or console: write plain source text, no JSON \
and no code fences. Tools are functions of the global object `tools`: `const result = await tools.NAME({…})`. They take one \
object, or one string where their declaration says so; a call that fails throws an Error. Calls of Promise.all run at the same \
time where they can. What is not awaited is lost at the end.
Show results with text(value); also image(data URL or image), forward_output(result of a tool), notify(text) for progress, \
store(key, value) and load(key) for later scripts, setTimeout, exit(), yield_control() to return what there is so far, and \
ALL_TOOLS with the name and description of each tool."""
_PYTHON = """\
The code is a subset of Python without files, network, classes and most of the standard library (json, re, math, datetime and \
a few others are there). Tools are functions with keyword arguments: `result = NAME(path="…")`; a call that fails raises \
RuntimeError. Show results with print(…), or end with an expression; store(key, value) and load(key) keep values for later \
scripts, and ALL_TOOLS has the name and description of each tool."""
_PYTHON_NAMES = frozenset({"store", "load", "ALL_TOOLS", *keyword.kwlist, *dir(builtins)})
_MORE_TOOLS = (
    "More tools are declared in ALL_TOOLS; filter it by name and description, and print only what you need."
)


def list_script_tools(
    definitions: Iterable[ToolDefinition], language: Language
) -> list[tuple[ScriptTool, ToolDefinition]]:
    """Return the tools under names that are identifiers, different from each other and from what the language
    has.
    """
    tools: dict[str, tuple[ScriptTool, ToolDefinition]] = {}
    # in JavaScript, tools have an object of their own
    reserved = _PYTHON_NAMES if language == "python" else frozenset[str]()
    for definition in definitions:
        path = [_to_identifier(part, language) for part in (definition.namespace, definition.name) if part]
        name, number = "__".join(path), 1
        while name in tools or name in reserved:
            number += 1
            name = f"{'__'.join(path)}_{number}"
        if number > 1:
            path = [name]
        is_freeform = definition.kind == "freeform"
        parameters = ["input"] if is_freeform else _list_parameters(definition)
        tool = ScriptTool(name, path, definition.description, parameters, is_freeform)
        if definition.deferred:  # nothing else tells how it is called
            tool = replace(tool, description=_DECLARE[language](tool, definition))
        tools[name] = tool, definition
    return [*tools.values()]


def _list_parameters(definition: ToolDefinition) -> list[str]:
    """Return the names of parameters, required ones first."""
    schema = definition.parameters or {}
    required = schema.get("required", ())
    return sorted(schema.get("properties", {}), key=lambda name: name not in required)


def _to_identifier(name: str, language: Language) -> str:
    identifier = re.sub(r"[^A-Za-z0-9_]" if language == "python" else r"[^A-Za-z0-9_$]", "_", name)
    return identifier if not identifier[:1].isdigit() else f"_{identifier}"


def declare_tools(definitions: Iterable[ToolDefinition], language: Language) -> str:
    """Return what a model has to know to write a script: how, and the declarations of all tools that are not
    deferred.
    """
    tools = list_script_tools(definitions, language)
    sections = [_JAVASCRIPT if language == "javascript" else _PYTHON]
    sections += [
        _DECLARE[language](tool, definition) for tool, definition in tools if not definition.deferred
    ]
    if any(definition.deferred for _, definition in tools):
        sections.append(_MORE_TOOLS)
    return "\n\n".join(sections)


def inline_references(schema: Schema) -> Schema:
    """Replace references by what they name; a recursive one, and those beyond a limit, by what they say
    themselves.
    """
    document, count = SchemaDocument(schema), 0

    def inline(node: Any, parents: tuple[str, ...]) -> Any:
        nonlocal count
        if not isinstance(node, dict):
            return node
        part = cast(Schema, node)
        while isinstance(ref := part.get("$ref"), str):
            part, target, count = drop_keywords(part, "$ref"), document.resolve(ref), count + 1
            if target is not None and isinstance(target.node, dict) and target.pointer not in parents:
                if len(parents) < _MAX_DEPTH and count <= _MAX_REFERENCES:
                    part, parents = {**cast(Schema, target.node), **part}, (*parents, target.pointer)
        return map_children(
            drop_keywords(part, "$defs", "definitions"), lambda child, key, name: inline(child, parents)
        )

    return cast(Schema, inline(schema, ()))


def _list_constants(schema: Schema) -> list[Any] | None:
    """Return the values that a schema admits, if it lists them."""
    if "enum" in schema:
        return schema["enum"]
    return [schema["const"]] if "const" in schema else None


def _find_kind(schema: Schema) -> Any:
    """Return the type that a schema names, or several; "" if it may be anything."""
    default = "object" if "properties" in schema else ""
    return schema.get("type", default)


def _describe(schema: Any) -> str:
    description = cast(Schema, schema).get("description") if isinstance(schema, dict) else None
    return str(description) if description else ""


# ---- JavaScript


def declare_javascript(tool: ScriptTool, definition: ToolDefinition) -> str:
    name = ".".join(["tools", *tool.path])
    parameters = inline_references(definition.parameters or {})
    argument = "input: string" if tool.is_freeform else f"args: {to_typescript(parameters)}"
    output = (
        to_typescript(inline_references(definition.output_schema)) if definition.output_schema else "string"
    )
    description = definition.description.strip()
    if definition.grammar:  # of a tool that takes free text
        description += f"\nThe input must match this grammar ({definition.grammar.get('syntax', '')}):\n"
        description += f"```\n{str(definition.grammar.get('definition', '')).strip()}\n```"
    return f"### `{name}`\n{description}\n```ts\n{name}({argument}): Promise<{output}>\n```"


def to_typescript(schema: Any, depth: int = 0) -> str:
    """Return a JSON Schema as a type of TypeScript, with its descriptions as comments."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "unknown"
    node = cast(Schema, schema)
    if (constants := _list_constants(node)) is not None:
        return " | ".join(map(json.dumps, constants))
    for key, separator in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if node.get(key):
            types = [to_typescript(part, depth + 1) for part in node[key]]
            return separator.join(dict.fromkeys(types))
    kind = _find_kind(node)
    if isinstance(kind, list):
        return " | ".join(to_typescript({**node, "type": part}, depth + 1) for part in cast(list[str], kind))
    if kind == "array":
        return f"Array<{to_typescript(node.get('items', {}), depth + 1)}>"
    if kind == "object":
        return _object_type(node, depth)
    return _PRIMITIVES.get(kind, "unknown")


def _object_type(schema: Schema, depth: int) -> str:
    required, indent = schema.get("required", ()), "  " * (depth + 1)
    lines: list[str] = []
    for name, part in cast(dict[str, Any], schema.get("properties", {})).items():
        for line in filter(None, map(str.strip, _describe(part).splitlines())):
            lines.append(f"{indent}// {line}")
        key = name if _JAVASCRIPT_NAME.fullmatch(name) else json.dumps(name)
        mark = "" if name in required else "?"
        lines.append(f"{indent}{key}{mark}: {to_typescript(part, depth + 1)};")
    additional = schema.get("additionalProperties", True)
    if not isinstance(additional, bool):
        lines.append(f"{indent}[key: string]: {to_typescript(additional, depth + 1)};")
    elif additional and not lines:  # beside known ones, it goes without saying
        lines.append(f"{indent}[key: string]: unknown;")
    if not lines:
        return "{}"
    return "\n".join(["{", *lines, f"{'  ' * depth}}}"])


# ---- Python


def declare_python(tool: ScriptTool, definition: ToolDefinition) -> str:
    schema = inline_references(definition.parameters or {})
    required, properties = schema.get("required", ()), cast(dict[str, Any], schema.get("properties", {}))
    parameters, notes = list[str](), list[str]()
    for name in tool.parameters:
        if tool.is_freeform:
            parameters.append(f"{name}: str")
            continue
        part = properties.get(name)
        default = "" if name in required else " = …"
        parameters.append(f"{name}: {_python_type(part)}{default}")
        if description := _describe(part):
            notes.append(f"    {name}: {' '.join(description.split())}")
    output = _python_type(inline_references(definition.output_schema)) if definition.output_schema else "str"
    body = "\n".join([f"def {tool.name}({', '.join(parameters)}) -> {output}:", *notes])
    return f"### `{tool.name}`\n{definition.description.strip()}\n```python\n{body}\n```"


def _python_type(schema: Any, depth: int = 0) -> str:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "Any"
    node = cast(Schema, schema)
    if (constants := _list_constants(node)) is not None:
        return f"Literal[{', '.join(map(repr, constants))}]"
    if parts := node.get("anyOf") or node.get("oneOf"):
        return " | ".join(dict.fromkeys(_python_type(part, depth + 1) for part in parts))
    kind = _find_kind(node)
    if isinstance(kind, list):
        return " | ".join(_python_type({**node, "type": part}, depth + 1) for part in cast(list[str], kind))
    if kind == "array":
        return f"list[{_python_type(node.get('items', {}), depth + 1)}]"
    if kind == "object" and node.get("properties"):
        fields: list[str] = []
        for name, part in cast(dict[str, Any], node["properties"]).items():
            type_name = _python_type(part, depth + 1)
            if name not in node.get("required", ()):
                type_name = f"NotRequired[{type_name}]"
            fields.append(f"{name!r}: {type_name}")
        return f"TypedDict[{{{', '.join(fields)}}}]"
    return _PYTHON_TYPES.get(kind, "Any")


_DECLARE = {"javascript": declare_javascript, "python": declare_python}
