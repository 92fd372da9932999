"""A view: a base tool in a model's words, there and back."""

from typing import Any

import pytest
from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.parameters import object_schema, string
from toolglot.facades.view import Case, Field, View
from toolglot.values.failures import invalid_argument
from toolglot.values.request import ToolDefinition

from .sample_facades import BASH, BRAVO, EDIT, EDITOR, PATCH, READ, RUN, WRITE, name_case

Arguments = dict[str, Any]
PICKED = View(
    name="sh",
    description="Run or patch.",
    parameters=object_schema("command", command=string()),
    select_case=lambda native: "patch" if native["command"].startswith("***") else "run",
    cases={
        "run": Case(base="shell", fields=("command",)),
        "patch": Case(base="patch", fields=(Field(native="command", base="text"),)),
    },
)


# ---- there


@pytest.mark.parametrize(("view", "native", "tool", "base"), [
    (READ, {"file_path": "a"}, "read", {"path": "a"}),
    (READ, {"file_path": "a", "offset": 3, "limit": 2}, "read", {"path": "a", "start_line": 3, "end_line": 4}),
    (READ, {"file_path": "a", "limit": 2}, "read", {"path": "a", "end_line": 2}),
    (WRITE, {"file_path": "a", "content": ""}, "write", {"path": "a", "content": "", "mode": "overwrite"}),
    (BASH, {"command": "ls", "timeout": 2500}, "shell", {"command": "ls", "timeout": 2.5}),
    (EDITOR, {"command": "view", "path": "a"}, "read", {"path": "a"}),
    (EDITOR, {"command": "add", "path": "a", "text": "x"}, "write", {"path": "a", "content": "x", "mode": "append"}),
    (PATCH, {"input": "p"}, "patch", {"text": "p"}),
    (RUN, {"argv": ["ls", "-l"]}, "shell", {"command": "ls -l"}),
    (PICKED, {"command": "ls"}, "shell", {"command": "ls"}),
    (PICKED, {"command": "*** Begin"}, "patch", {"text": "*** Begin"}),
])  # fmt: skip
def test_a_native_call_is_a_call_of_a_base_tool(
    view: View, native: Arguments, tool: str, base: Arguments
) -> None:
    assert view.to_base(native) == (tool, base)
    assert view.from_base(tool, base) == (native, ())


@pytest.mark.parametrize(("view", "native", "parameters"), [
    (READ, {"file_path": "a", "offset": "abc"}, ["offset"]),
    (READ, {}, ["file_path"]),
    (READ, {"file_path": ["a"], "limit": None}, ["file_path", "limit"]),
    (EDITOR, {"command": "fly", "path": "a"}, ["command"]),
])  # fmt: skip
def test_a_wrong_or_missing_parameter_is_an_error_that_names_it_and_the_tool(
    view: View, native: Arguments, parameters: list[str]
) -> None:
    with pytest.raises(ToolError) as caught:
        view.to_base(native)
    assert (caught.value.kind, caught.value.code, caught.value.tool) == (
        "validation",
        "invalid_arguments",
        view.name,
    )
    assert all(name in str(caught.value) for name in (view.name, *parameters))
    assert [issue.path for issue in caught.value.details] == [f"$.{name}" for name in parameters]


def test_what_a_function_of_the_table_refuses_is_an_error_that_names_the_tool() -> None:
    def refuse(native: Arguments) -> Arguments:
        raise invalid_argument("url", "is missing") if native["how"] == "open" else KeyError("how")

    case = Case(base="shell", to_base=refuse)
    view = View(name="web", description="", parameters=object_schema(how=string()), cases={"": case})
    with pytest.raises(ToolError, match=r"^web: url is missing$") as caught:
        view.to_base({"how": "open"})
    assert (caught.value.kind, caught.value.tool) == ("validation", "web")
    with pytest.raises(ToolError, match=r"^web did not run: its arguments cannot be interpreted"):
        view.to_base({"how": "fly"})


# ---- back


@pytest.mark.parametrize(("view", "tool", "base", "native", "lost"), [
    (READ, "read", {"path": "a", "pages": "1-2"}, {"file_path": "a"}, ["pages"]),
    (READ, "read", {"path": "a", "start_line": 0}, {"file_path": "a"}, ["start_line"]),
    (WRITE, "write", {"path": "a", "content": "x", "mode": "append"}, {"file_path": "a", "content": "x"}, ["mode"]),
    (EDIT, "edit", {"path": "a", "old": "x", "new": "", "count": 3}, {"file_path": "a", "old_string": "x", "new_string": ""},
        ["count"]),
    (EDITOR, "write", {"path": "a", "content": "x", "mode": "append"}, {"command": "add", "path": "a", "text": "x"}, []),
    (EDITOR, "write", {"path": "a", "content": "x"}, {"command": "create", "path": "a", "text": "x"}, []),
    (EDITOR, "read", {"path": "a", "start_line": 2}, {"command": "view", "path": "a"}, ["start_line"]),
])  # fmt: skip
def test_an_inexpressible_parameter_is_a_loss(
    view: View, tool: str, base: Arguments, native: Arguments, lost: list[str]
) -> None:
    native_call = view.from_base(tool, base)
    assert native_call is not None
    assert native_call[0] == native
    assert [loss.subject for loss in native_call[1]] == [f"parameter {name!r}" for name in lost]
    assert {loss.where for loss in native_call[1]} <= {view.name}


@pytest.mark.parametrize(
    ("view", "tool", "base"),
    [
        (READ, "write", {"path": "a"}),
        (READ, "read", {"start_line": 2}),
        (WRITE, "write", {"path": "a", "content": 5}),
        (RUN, "shell", {"command": "a | b"}),
        (EDITOR, "shell", {"command": "ls"}),
    ],
)
def test_an_inexpressible_call_is_none(view: View, tool: str, base: Arguments) -> None:
    assert view.from_base(tool, base) is None


def test_an_expression_that_cannot_be_read_back_loses_everything() -> None:
    broken = View(
        name="x",
        description="",
        parameters=object_schema(),
        cases={"": Case(base="shell", to_base=lambda native: native["gone"], from_base=lambda _: {})},
    )
    native_call = broken.from_base("shell", {"command": "ls"})
    assert native_call is not None
    assert len(native_call[1]) == 1


def test_a_case_that_adds_nothing_is_preferred() -> None:
    both = View(
        name="run",
        description="",
        parameters=object_schema("how", how=string(), command=string()),
        select_case=lambda native: native["how"],
        cases={
            "later": Case(
                base="shell", fields=(name_case("how", "later"), "command"), fixed={"background": True}
            ),
            "now": Case(base="shell", fields=(name_case("how", "now"), "command")),
        },
    )
    assert both.from_base("shell", {"command": "ls"}) == ({"how": "now", "command": "ls"}, ())
    assert both.from_base("shell", {"command": "ls", "background": True}) == (
        {"how": "later", "command": "ls"},
        (),
    )


def test_a_function_may_leave_a_parameter_out() -> None:
    field = Field(native="n", base="b", to_base=lambda _: UNSET, from_base=lambda _: UNSET)
    view = View(
        name="x",
        description="",
        parameters=object_schema(n=string()),
        cases={"": Case(base="read", fields=(field,))},
    )
    assert view.to_base({"n": "1"}) == ("read", {})
    native_call = view.from_base("read", {"b": "1"})
    assert native_call is not None
    assert native_call[0] == {}


# ---- what the model sees, what is taken


def test_the_definition_is_exactly_that_of_the_table() -> None:
    assert BASH.definition == ToolDefinition("Bash", "Run a command.", BASH.parameters)
    assert PATCH.definition == ToolDefinition("apply_patch", "Apply a patch.", None, "freeform")
    assert RUN.definition.namespace == "term"
    assert (RUN.qualified_name, BASH.qualified_name) == ("term.run", "Bash")


def test_more_is_accepted_than_is_shown() -> None:
    assert BASH.parameters is not None
    assert [*BASH.parameters["properties"]] == ["command", "timeout"]
    assert [*BASH.accepted_schema["properties"]] == ["command", "timeout", "time_limit", "description"]
    assert BASH.accepted_schema["required"] == ["command"]


def test_a_closed_schema_accepts_more_too() -> None:
    strict = View(
        name="x",
        description="",
        parameters={**object_schema(a=string()), "additionalProperties": False},
        cases={},
        accepts={"b": string()},
    )
    assert "additionalProperties" not in strict.accepted_schema
    assert strict.parameters is not None
    assert strict.parameters["additionalProperties"] is False


def test_a_freeform_tool_may_be_called_as_a_function() -> None:
    assert PATCH.accepted_schema == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
    }


def test_a_view_without_parameters_accepts_none() -> None:
    assert View(name="x", description="", parameters=None, cases={}).accepted_schema == {
        "type": "object",
        "properties": {},
    }


def test_a_view_knows_its_base_tools() -> None:
    assert EDITOR.base_tools == {"read", "write"}
    assert {base for view in BRAVO.views for base in view.base_tools} == {"read", "write", "patch", "shell"}
