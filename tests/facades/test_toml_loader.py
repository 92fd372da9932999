"""Facades from TOML: rows of data are views like any other, and what is wrong is a sentence with the file and the key."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import UsageError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.parameters import boolean, integer, number, object_schema, string
from toolglot.facades.toml_loader import load_facade
from toolglot.facades.view import Facade, RenderContext
from toolglot.values.messages import Text, ToolCall, ToolResult
from toolglot.values.request import Schema

from .meaning import meaning_of, render
from .sample_facades import BASES

SCHEMAS = {
    "read": object_schema("path", path=string(), start_line=integer(), end_line=integer()),
    "write": object_schema("path content", path=string(), content=string(), mode=string()),
    "shell": object_schema(command=string(), timeout=number(), background=boolean()),
    "ast_search": object_schema("pattern", pattern=string()),
}
"""The base tools with the schemas of their arguments."""
NAMES: dict[str, Schema] = {name: {} for name in BASES}

MINE = """
id = "mine"
title = "My harness"
note = "Open a file before you change it."
hides = ["write"]
failure = "failed ({kind}): {text}"

[[views]]
name = "open_file"
base = "read"
description = "Open a file."
aliases = ["cat"]
parameters = { type = "object", properties = { file = { type = "string" }, from = { type = "integer" } }, required = ["file"] }
fields = { file = "path", from = "start_line" }
offset = { from = 1 }
result = "== {native.file} from {data.first} {{}} ==\\n{text}"

[[views]]
name = "terminal"
base = "shell"
models = "^mine-"
ignored = ["why"]
fields = { line = "command", wait = "timeout" }
scale = { wait = 0.001 }

[views.parameters]
type = "object"
properties.line.type = "string"
properties.wait.type = "number"
required = ["line"]

[[views]]
name = "save"
base = "write"
parameters = { type = "object", properties = { path = { type = "string" }, content = { type = "string" } } }
fixed = { mode = "append" }
failure = "not saved: {text}"
"""


def mine() -> Facade:
    return load_facade(MINE, "mine.toml", NAMES)


def meaning(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    found = meaning_of(BoundFacade(mine(), "mine-1", BASES), ToolCall("c", name, arguments))
    assert found is not None
    return found.tool, found.arguments


# ---- what is read


def test_a_facade_is_read_whole() -> None:
    found = mine()
    assert (found.id, found.title, found.note) == ("mine", "My harness", "Open a file before you change it.")
    assert found.hides == {"write"}
    assert [view.name for view in found.views] == ["open_file", "terminal", "save"]
    assert found.views[0].parameters == {
        "type": "object",
        "properties": {"file": {"type": "string"}, "from": {"type": "integer"}},
        "required": ["file"],
    }


@pytest.mark.parametrize(("name", "native", "tool", "base"), [
    ("open_file", {"file": "a", "from": 0}, "read", {"path": "a", "start_line": 1}),
    ("cat", {"file": "a"}, "read", {"path": "a"}),
    ("terminal", {"line": "ls", "wait": 2500, "why": "to see"}, "shell", {"command": "ls", "timeout": 2.5}),
    ("terminal", {"line": "ls", "wait": 3000}, "shell", {"command": "ls", "timeout": 3}),
    ("save", {"path": "a", "content": "b"}, "write", {"path": "a", "content": "b", "mode": "append"}),
])  # fmt: skip
def test_calls_are_interpreted_by_the_rows(name: str, native: dict[str, Any], tool: str, base: dict[str, Any]) -> None:
    assert meaning(name, **native) == (tool, base)


@given(wait=st.integers(0, 10**9), start=st.integers(0, 10**9))
def test_numbers_survive_a_round_trip(wait: int, start: int) -> None:
    opened, terminal, _ = mine().views
    assert terminal.from_base(*terminal.to_base({"line": "ls", "wait": wait})) == ({"line": "ls", "wait": wait}, ())
    assert opened.from_base(*opened.to_base({"file": "a", "from": start})) == ({"file": "a", "from": start}, ())


def test_what_is_no_number_is_left_for_the_base_tool_to_judge() -> None:
    opened = mine().views[0]
    assert opened.map_call({"file": "a", "from": None}) == ("read", {"path": "a", "start_line": None})
    assert opened.map_call({"file": "a", "from": True}) == ("read", {"path": "a", "start_line": True})


def test_a_whole_number_stays_whole_on_the_way_back() -> None:
    text = MINE.replace('wait.type = "number"', 'wait.type = "integer"')
    terminal = load_facade(text, "mine.toml").views[1]
    found = terminal.from_base("shell", {"command": "ls", "timeout": 0.0004})
    assert found is not None
    assert (found[0]["wait"], len(found[1])) == (0, 1)


def test_templates_are_filled_in() -> None:
    case = mine().views[0].cases[""]
    assert case.result is not None
    said = RenderContext(native={"file": "a.txt"}, base={}, text="one {text}", data={"first": 1})
    assert case.result(said) == "== a.txt from 1 {} ==\none {text}"


def test_a_missing_parameter_is_an_empty_placeholder() -> None:
    text = MINE.replace("{native.file} from {data.first}", "{native.file}{native.from}{base.end_line}{native.why}")
    case = load_facade(text.replace('aliases = ["cat"]', 'ignored = ["why"]'), "mine.toml", SCHEMAS).views[0].cases[""]
    assert case.result is not None
    assert case.result(RenderContext(native={"file": "a.txt"}, base={}, text="one")) == "== a.txt {} ==\none"


@pytest.mark.parametrize("data", [None, {}, {"first": None}, {"lines": []}, ["first"]])
def test_a_template_without_data_falls_back_to_the_base_text(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    result = ToolResult("c", (Text("one"),), data=data)
    with caplog.at_level("WARNING"):
        found = render(BoundFacade(mine(), "mine-1", BASES), ToolCall("c", "open_file", {"file": "a"}), {"path": "a"}, result)
    assert (found.text, found.is_error) == ("one", False)
    assert "{data.first}" in caplog.text


def test_failures_are_rendered_by_their_templates() -> None:
    face = BoundFacade(mine(), "mine-1", BASES)
    wrong = ToolResult("c", (Text("gone"),), is_error=True, error_kind="not_found")
    assert render(face, ToolCall("c", "open_file", {"file": "a"}), {}, wrong).text == "failed (not_found): gone"
    assert render(face, ToolCall("c", "save", {"path": "a"}), {}, wrong).text == "not saved: gone"


def test_some_tools_are_for_some_models() -> None:
    assert [view.name for view in BoundFacade(mine(), "other-1", BASES).views] == ["open_file", "save"]


def test_an_id_is_enough() -> None:
    found = load_facade('id = "x"', "x.toml")
    assert (found.title, found.views, found.failure) == ("x", (), None)


# ---- what is wrong

VIEW = 'id = "x"\n[[views]]\nname = "a"\nbase = "read"\n'
OBJECT = 'parameters = { type = "object", properties = { p = { type = "string" }, n = { type = "integer" } } }\n'
TOOL = VIEW + OBJECT + 'fields = { p = "path", n = "start_line" }\n'
SECOND = TOOL.partition("\n")[2].replace('"a"', '"b"')


def shaped(schema: str) -> str:
    return VIEW + "parameters = { type = 'object', " + schema + " }\n"


FILE_ERRORS = [
    ("id = ", "not TOML: "),
    ("", "id: it is missing"),
    ('id = ""', "id: it is empty"),
    ("id = 3", "id: expected a string, got an integer"),
    ('id = "x"\nhidden = []', "unknown key 'hidden'; did you mean 'hides'?"),
    ('id = "x"\ntitel = "X"', "unknown key 'titel'; did you mean 'title'?"),
    ('id = "x"\nzzz = 1', "unknown key 'zzz'; known: failure, hides, id, note, provider, title, views"),
    ('id = "x"\nhides = ["reed"]', "hides: unknown tool 'reed'; did you mean 'read'?"),
    ('id = "x"\n[views]\nname = "a"', "views: expected a list, got a table; start each tool with [[views]]"),
    (VIEW, "views[0].parameters: it is missing"),
    (TOOL + "feilds = {}", "views[0]: unknown key 'feilds'; did you mean 'fields'?"),
    (TOOL.replace('"a"', '""'), "views[0].name: it is empty"),
    (TOOL.replace('"read"', '"reed"'), "views[0].base: unknown tool 'reed'; did you mean 'read'?"),
    (TOOL + 'models = "("', "views[0].models: not a regular expression"),
    (TOOL + SECOND.replace('"b"', '"a"'), "views[1].name: 'a' is already a tool"),
]
SCHEMA_ERRORS = [
    (VIEW + "parameters = {}", "parameters: they need type"),
    (VIEW + 'parameters = { type = "object", properties = 3 }', "parameters: they need type"),
    (shaped("properties.p.type = 'strng'"), "parameters: not a JSON Schema: properties.p.type: there is no type 'strng'"),
    (
        shaped("properties.p.type = 'array', properties.p.items.type = 'text'"),
        "parameters: not a JSON Schema: properties.p.items.type: there is no type 'text'",
    ),
    (shaped("properties.p = 'string'"), "parameters: not a JSON Schema: properties.p: "),
    (shaped("properties.p.maximum = 2025-01-31"), "parameters: not a JSON Schema: properties.p.maximum: "),
    (shaped("required = 'p'"), "parameters: not a JSON Schema: required: "),
    (shaped("properties.p = { '$ref' = '#/$defs/q' }"), "parameters: not a JSON Schema: Pointer '/$defs/q'"),
    (shaped("properties.path = {}, required = ['q']"), "parameters.required: unknown property 'q'; known: path"),
    (shaped("result = 'x'"), "parameters.result: it has no effect there; move it above [views.parameters]"),
    (TOOL + "accepts = { q = { type = 'nmber' } }", "accepts: not a JSON Schema: properties.q.type: there is no type 'nmber'"),
]
FIELD_ERRORS = [
    ('fields = { p = "path", n = "start_line", q = "path" }', "fields: unknown parameter 'q'; known: n, p"),
    ('fields = { p = "path", n = 3 }', "fields.n: expected a string, got an integer"),
    ('fields = { p = "pth", n = "start_line" }', "fields: unknown parameter of read 'pth'; did you mean 'path'?"),
    ('fields = { p = "path", n = "path" }', "fields: 'p' and 'n' both map to 'path'"),
    ('fields = { p = "path" }', "fields: 'n' is not mapped; add it here or to ignored"),
    ('fields = { p = "path", n = "start_line" }\nignored = ["p"]', "ignored: 'p' is also in fields"),
    ("", "parameters, which fields do not map: unknown parameter of read 'p'; known: "),
]
VALUE_ERRORS = [
    ("scale = { q = 2 }", "scale: unknown field 'q'"),
    ("scale = { n = 0 }", "scale.n: 0 cannot be reversed"),
    ("scale = { n = inf }", "scale.n: inf cannot be reversed"),
    ("offset = { q = 2 }", "offset: unknown field 'q'"),
    ("offset = { n = nan }", "offset.n: nan cannot be reversed"),
    ("offset = { n = 'one' }", "offset.n: expected a number, got a string"),
    ("scale = { n = 2, p = true }", "scale.p: expected a number, got true or false"),
    ("offset = { p = 1 }", "offset: 'p' is not a number; its type is string"),
    ("scale = { p = 2 }", "scale: 'p' is not a number; its type is string"),
    ("fixed = { end_lin = 3 }", "fixed: unknown parameter of read 'end_lin'; did you mean 'end_line'?"),
    ("fixed = { path = 'a' }", "fixed: 'path' is also set by the field 'p'"),
    ("fixed = { end_line = 'last' }", 'fixed.end_line: "last" is not of type "integer"'),
    ("fixed = { end_line = 2025-01-31 }", 'fixed.end_line: "2025-01-31" is not of type "integer"'),
]


@pytest.mark.parametrize(("text", "sentence"), [
    *FILE_ERRORS,
    *((text, f"views[0].{sentence}") for text, sentence in SCHEMA_ERRORS),
    *((VIEW + OBJECT + text, f"views[0].{sentence}") for text, sentence in FIELD_ERRORS),
    *((TOOL + text, f"views[0].{sentence}") for text, sentence in VALUE_ERRORS),
    (TOOL + "failure = '{data.lines}'", "views[0].failure: there is no {data.lines} when a call has"),
    (TOOL + "aliases = ['b']\n" + SECOND, "views[0].aliases: 'b' is already a tool"),
    (TOOL + "aliases = ['c']\n" + SECOND + "aliases = ['c']", "views[1].aliases: 'c' is already an alias"),
    pytest.param(f"x = {'[' * 9999}", "it is nested too deeply", id="nested"),
])  # fmt: skip
def test_an_error_names_the_key(text: str, sentence: str) -> None:
    assert wrong(text).startswith(sentence)


def test_a_schema_may_name_its_parts() -> None:
    text = shaped("properties.path = { '$ref' = '#/$defs/q' }, '$defs'.q.type = 'string'")
    assert load_facade(text, "x.toml", SCHEMAS).views[0].accepted_schema["$defs"] == {"q": {"type": "string"}}


@pytest.mark.parametrize(("template", "sentence"), [
    ("{txt}", "there is no {txt}"),
    ("{}", "there is no {}"),
    ("{native}", "there is no {native}"),
    ("{data.}", "there is no {data.}"),
    ("{text", "unmatched brace"),
    ("text}", "unmatched brace"),
    ("{{text}", "unmatched brace"),
    ("{native.nope}", "{native.nope}: unknown parameter 'nope'"),
    ("{base.pth}", "{base.pth}: unknown parameter 'pth'; did you mean 'path'?"),
])  # fmt: skip
@pytest.mark.parametrize("key", ["result", "failure"])
def test_template_errors_name_the_key(key: str, template: str, sentence: str) -> None:
    assert wrong(TOOL + f"{key} = '{template}'").startswith(f"views[0].{key}: {sentence}")
    if key == "failure":
        assert wrong(TOOL.replace("\n", f"\n{key} = '{template}'\n", 1)).startswith(f"failure: {sentence}")


def wrong(text: str) -> str:
    """What is wrong with a file, without its name."""
    with pytest.raises(UsageError) as error:
        load_facade(text, "x.toml", SCHEMAS)
    assert "\n" not in str(error.value)
    where, _, sentence = str(error.value).partition(": ")
    assert where == "x.toml"
    return sentence


def test_fixed_values_that_fit_are_kept() -> None:
    found = load_facade(TOOL + "fixed = { end_line = 3 }", "x.toml", SCHEMAS)
    assert found.views[0].to_base({"p": "a", "n": 1}) == ("read", {"end_line": 3, "path": "a", "start_line": 1})


def test_what_is_not_known_of_the_base_tools_is_not_checked() -> None:
    found = load_facade(VIEW + OBJECT + "fixed = { q = 1 }\nresult = '{base.x}'", "x.toml", {"read": {}})
    assert found.views[0].to_base({"p": "a"}) == ("read", {"q": 1, "p": "a"})
