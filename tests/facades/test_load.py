"""Facades from TOML: rows of data are views like any other, and what is wrong is a sentence with the file and the key."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handover.scenes import engine_for, recording, refused

from toolglot.errors import UsageError
from toolglot.facades.face import Face
from toolglot.facades.load import load_facade
from toolglot.facades.view import Facade, Said
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Text, ToolCall, ToolResult

from .made import BASES, base_tools

MINE = """
id = "mine"
title = "My harness"
note = "Open a file before you change it."
shows = ["ast_search"]
failure = "failed ({kind}): {text}"

[[views]]
name = "open_file"
base = "read"
description = "Open a file."
aliases = ["cat"]
parameters = { type = "object", properties = { file = { type = "string" }, from = { type = "integer" } }, required = ["file"] }
fields = { file = "path", from = "start_line" }
offset = { from = 1 }
result = "== {native.file} from {data.first} {{}} ==\\n{text}{data.none.at.all}"

[[views]]
name = "terminal"
base = "shell"
models = "^mine-"
accepts = { wait = { type = "number" } }
ignored = ["why"]
fields = { line = "command", wait = "timeout" }
scale = { wait = 0.001 }

[views.parameters]
type = "object"
properties.line.type = "string"
required = ["line"]

[[views]]
name = "save"
base = "write"
parameters = { type = "object", properties = { path = { type = "string" }, content = { type = "string" } } }
fixed = { mode = "append" }
failure = "not saved: {text}"
"""


def mine() -> Facade:
    return load_facade(MINE, "mine.toml", BASES)


def meaning(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    found = Face(mine(), "mine-1", BASES).means(ToolCall("c", name, arguments))
    assert found is not None
    return found.tool, found.arguments


# ---- what is read


def test_a_facade_is_read_whole() -> None:
    found = mine()
    assert (found.id, found.title, found.note) == ("mine", "My harness", "Open a file before you change it.")
    assert found.shows == {"ast_search"}
    assert [view.name for view in found.views] == ["open_file", "terminal", "save"]
    assert found.views[0].parameters == {
        "type": "object",
        "properties": {"file": {"type": "string"}, "from": {"type": "integer"}},
        "required": ["file"],
    }


@pytest.mark.parametrize(
    ("name", "native", "tool", "base"),
    [
        ("open_file", {"file": "a", "from": 0}, "read", {"path": "a", "start_line": 1}),
        ("cat", {"file": "a"}, "read", {"path": "a"}),
        ("terminal", {"line": "ls", "wait": 2500, "why": "to see"}, "shell", {"command": "ls", "timeout": 2.5}),
        ("terminal", {"line": "ls", "wait": 3000}, "shell", {"command": "ls", "timeout": 3}),
        ("save", {"path": "a", "content": "b"}, "write", {"path": "a", "content": "b", "mode": "append"}),
    ],
)
def test_calls_mean_what_the_rows_say(name: str, native: dict[str, Any], tool: str, base: dict[str, Any]) -> None:
    assert meaning(name, **native) == (tool, base)


@given(wait=st.integers(0, 10**9), start=st.integers(0, 10**9))
def test_numbers_come_back_as_they_were(wait: int, start: int) -> None:
    opened, terminal, _ = mine().views
    assert terminal.from_base(*terminal.to_base({"line": "ls", "wait": wait})) == ({"line": "ls", "wait": wait}, ())
    assert opened.from_base(*opened.to_base({"file": "a", "from": start})) == ({"file": "a", "from": start}, ())


def test_what_is_no_number_is_left_for_the_base_tool_to_judge() -> None:
    opened = mine().views[0]
    assert opened.to_base({"file": "a", "from": None}) == ("read", {"path": "a", "start_line": None})
    assert opened.to_base({"file": "a", "from": True}) == ("read", {"path": "a", "start_line": True})


def test_a_whole_number_stays_whole_on_the_way_back() -> None:
    text = MINE.replace('wait = { type = "number" }', 'wait = { type = "integer" }')
    terminal = load_facade(text, "mine.toml").views[1]
    found = terminal.from_base("shell", {"command": "ls", "timeout": 0.0004})
    assert found is not None
    assert (found[0]["wait"], len(found[1])) == (0, 1)


def test_texts_are_filled_in() -> None:
    case = mine().views[0].cases[""]
    assert case.result is not None
    said = Said(native={"file": "a.txt"}, base={}, text="one {text}", data={"first": 1, "none": 3})
    assert case.result(said) == "== a.txt from 1 {} ==\none {text}"


def test_failures_have_their_words() -> None:
    face = Face(mine(), "mine-1", BASES)
    wrong = ToolResult("c", (Text("gone"),), is_error=True, error_kind="not_found")
    assert face.worded(ToolCall("c", "open_file", {"file": "a"}), {}, wrong).text == "failed (not_found): gone"
    assert face.worded(ToolCall("c", "save", {"path": "a"}), {}, wrong).text == "not saved: gone"


def test_some_tools_are_for_some_models() -> None:
    assert [view.name for view in Face(mine(), "other-1", BASES).views] == ["open_file", "save"]


def test_little_is_enough() -> None:
    found = load_facade('id = "x"', "x.toml")
    assert (found.title, found.views, found.failure) == ("x", (), None)


def test_an_agent_works_with_it() -> None:
    transport = recording()
    agent = Orchestrator(engine_for("anthropic", transport), tools=base_tools(), facade=mine())
    outcomes = asyncio.run(agent.run('call open_file {"file": "a.txt", "from": 1} call open_file {"file": "b"}')).outcomes
    assert [one.result.text for one in outcomes] == [
        "== a.txt from 2 {} ==\ntwo\nthree",
        "failed (not_found): there is no b",
    ]
    assert refused(transport.sent) == []


# ---- what is wrong

VIEW = 'id = "x"\n[[views]]\nname = "a"\nbase = "read"\n'
OBJECT = 'parameters = { type = "object", properties = { p = { type = "string" } } }\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id = ", "x.toml: not TOML: "),
        ("", "x.toml: the file: object missing required field `id`"),
        ('id = ""', "x.toml: id: it is empty"),
        ("id = 3", "x.toml: id: expected `str`, got `int`"),
        ('id = "x"\nshow = []', "x.toml: the file: object contains unknown field `show`"),
        ('id = "x"\nshows = ["reed"]', "x.toml: shows: there is no built-in tool 'reed'"),
        (VIEW, "x.toml: views[0]: object missing required field `parameters`"),
        (VIEW + OBJECT + "feilds = {}", "x.toml: views[0]: object contains unknown field `feilds`"),
        (VIEW.replace('"a"', '""') + OBJECT, "x.toml: views[0].name: it is empty"),
        (VIEW.replace("read", "reed") + OBJECT, "x.toml: views[0].base: there is no built-in tool 'reed'"),
        (VIEW + "parameters = {}", "x.toml: views[0].parameters: they need type"),
        (VIEW + 'parameters = { type = "object", properties = 3 }', "x.toml: views[0].parameters: they need type"),
        (
            VIEW + 'parameters = { type = "object", properties = { p = { type = "txt" } } }',
            "x.toml: views[0].parameters: not a JSON Schema",
        ),
        (
            VIEW + 'parameters = { type = "object", properties = {}, required = ["q"] }',
            "x.toml: views[0].parameters.required: 'q' is not among the properties",
        ),
        (VIEW + OBJECT + 'fields = { q = "path" }', "x.toml: views[0].fields: 'q' is not among the parameters"),
        (VIEW + OBJECT + "fields = { p = 3 }", "x.toml: views[0].fields"),
        (VIEW + OBJECT + "scale = { q = 2 }", "x.toml: views[0].scale: 'q' is not among the fields"),
        (VIEW + OBJECT + "scale = { p = 0 }", "x.toml: views[0].scale: a scale of 0"),
        (VIEW + OBJECT + "offset = { q = 2 }", "x.toml: views[0].offset: 'q' is not among the fields"),
        (VIEW + OBJECT + 'models = "("', "x.toml: views[0].models: not a pattern"),
        (VIEW + OBJECT + 'result = "{txt}"', "x.toml: views[0].result: there is no {txt}"),
        (VIEW + OBJECT + 'failure = "{}"', "x.toml: views[0].failure: there is no {}"),
        (VIEW + OBJECT + VIEW.partition("\n")[2] + OBJECT, "x.toml: views[1].name: there are two tools 'a'"),
    ],
)
def test_what_is_wrong_is_told_with_its_file_and_its_key(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        load_facade(text, "x.toml", BASES)
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)
