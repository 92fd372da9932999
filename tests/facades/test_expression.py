"""Base calls in history as each facade expresses them: without loss where the scenarios say so, always as
shown.
"""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolglot.facades.equivalence import canonical_call
from toolglot.facades.view import View
from toolglot.schema.arguments import SchemaBinder

from .scenarios import FACADES, VISIBLE, Arguments, base_schemas, bind, scenarios, view_of

# ---- scenarios

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0/."), min_size=1, max_size=8)
PLACEHOLDERS: dict[str, st.SearchStrategy[Any]] = {
    "<text>": TEXT,
    "<texts>": st.lists(TEXT, max_size=3),
    "<text> <text>": st.tuples(TEXT, TEXT).map(" ".join),
    "<int>": st.integers(1, 50),
    "<line>": st.integers(51, 99),
    "<bool>": st.booleans(),
    "<seconds>": st.integers(250, 30_000).map(lambda value: value / 1000),
    "<digits>": st.integers(0, 10**9).map(str),
}


def draw_from(template: Any) -> st.SearchStrategy[Any]:
    """A strategy for a template of the scenarios."""
    if isinstance(template, str):
        return PLACEHOLDERS.get(template, st.just(template))
    if isinstance(template, list):
        return st.tuples(*map(draw_from, cast(list[Any], template))).map(list)
    if isinstance(template, dict):
        fields = cast(Arguments, template)
        if "<any>" in fields:
            return st.one_of([draw_from(choice) for choice in fields["<any>"]])
        return st.fixed_dictionaries({name: draw_from(value) for name, value in fields.items()})
    return st.just(template)


@pytest.mark.parametrize(("facade_id", "scenario"), scenarios("expressible"))
def test_an_expressible_call_survives_a_round_trip(facade_id: str, scenario: Arguments) -> None:
    view, base = view_of(facade_id, scenario["tool"]), scenario["expressible"]
    required, optional = (
        {name: draw_from(value) for name, value in scenario[key].items()} for key in ("required", "optional")
    )
    accepted = SchemaBinder(view.accepted_schema)

    @settings(max_examples=12)
    @given(st.fixed_dictionaries(required, optional=optional))
    def law(arguments: Arguments) -> None:
        expression = view.from_base(base, arguments)
        assert expression is not None
        native, losses = expression
        assert losses == ()
        assert accepted.bind(native) is not None
        tool, restored = view.to_base(native)
        assert tool == base
        original = canonical_call(base, arguments)
        assert {name: canonical_call(base, restored).get(name) for name in original} == original

    law()


def test_every_view_is_tried() -> None:
    tried = {(facade_id, scenario["tool"]) for facade_id, scenario in scenarios("expressible")}
    names = {name for _, name in tried}
    # The facades of one harness share their views: one of them is enough.
    assert [view.name for _, view in VISIBLE if view.name not in names] == []


@pytest.mark.parametrize(("facade_id", "scenario"), scenarios("express"))
def test_what_is_lost_is_reported(facade_id: str, scenario: Arguments) -> None:
    name, native = scenario["native"]
    expression = view_of(facade_id, name).from_base(*scenario["express"])
    assert expression is not None
    assert expression[0] == native
    assert [loss.subject for loss in expression[1]] == [
        f"parameter {parameter!r}" for parameter in scenario["lost"]
    ]


@pytest.mark.parametrize(("facade_id", "scenario"), scenarios("inexpressible"))
def test_what_cannot_be_expressed_is_not(facade_id: str, scenario: Arguments) -> None:
    assert view_of(facade_id, scenario["tool"]).from_base(*scenario["inexpressible"]) is None


# ---- a law for all facades: history uses only what the model is shown

MAY_BE_EMPTY = frozenset(
    {"old", "new", "content", "source", "question", "header", "description", "explanation"}
)
MAY_BE_ZERO = frozenset({"before", "after", "skip", "max_results", "after_line", "start_char", "limit"})
STRINGS = ("a", "b.txt", "src/", ".", "https://a.example/x", "w3", "7")
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "number": st.sampled_from([0.0001, 0.5, 1, 30, 600, 7200]),
    "boolean": st.booleans(),
    "null": st.none(),
}


def values(name: str, node: Arguments, definitions: Arguments) -> st.SearchStrategy[Any]:
    """Values that a base tool accepts, extreme ones too."""
    if "$ref" in node:
        return values(name, definitions[node["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in node:
        return st.one_of([values(name, choice, definitions) for choice in node["anyOf"]])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    match node.get("type"):
        case "string":
            return st.sampled_from([*STRINGS, *([""] if name in MAY_BE_EMPTY else [])])
        case "integer":
            return st.sampled_from([1, 2, 7, 500, 100_000, *([0] if name in MAY_BE_ZERO else [])])
        case "array":
            return st.lists(values(name, node["items"], definitions), min_size=1, max_size=5)
        case "object" if "properties" in node:
            parts = {key: values(key, schema, definitions) for key, schema in node["properties"].items()}
            required = {key: parts.pop(key) for key in node.get("required", ())}
            return st.fixed_dictionaries(required, optional=parts)
        case "object":
            return st.dictionaries(st.sampled_from("ab"), st.just("x"))
        case kind:
            return SCALARS[str(kind)]


@pytest.mark.parametrize(
    ("facade_id", "view", "base"),
    [
        pytest.param(facade_id, view, base, id=f"{facade_id}:{view.name}:{base}")
        for facade_id, view in VISIBLE
        for base in sorted(view.base_tools)
    ],
)
def test_history_fits_what_the_model_is_shown(facade_id: str, view: View, base: str) -> None:
    schema, parameters = base_schemas()[base], view.parameters or {}
    shown = SchemaBinder(parameters)

    @settings(max_examples=40)
    @given(values("", schema, schema.get("$defs", {})))
    def law(arguments: Arguments) -> None:
        expression = view.from_base(base, arguments)
        if expression is not None and parameters:
            assert shown.bind(expression[0]) is not None, shown.find_issues(expression[0])
            assert set(expression[0]) <= set(parameters["properties"])

    law()


@pytest.mark.parametrize("facade_id", FACADES)
def test_each_base_tool_has_at_most_one_view(facade_id: str) -> None:
    views = [base for view in bind(facade_id).views for base in view.base_tools]
    assert len(views) == len(set(views)) or facade_id in ("codex-shell", "codex-code-mode")
