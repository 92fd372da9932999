"""The tool that changes a cell of a notebook."""

import json
from pathlib import Path
from typing import Any

import pytest
from file_kit import Tools, create_trapped_workspace, snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolglot.builtin.edit.notebook import notebook_tools
from toolglot.builtin.files.file_tools import file_tools
from toolglot.errors import ToolError


def code(name: str, *lines: str) -> dict[str, Any]:
    output = {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
    return {
        "cell_type": "code",
        "execution_count": 7,
        "id": name,
        "metadata": {},
        "outputs": [output],
        "source": list(lines),
    }


def markdown(name: str, *lines: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {"tags": []}, "source": list(lines)}


def book(*cells: dict[str, Any], minor: int = 5) -> dict[str, Any]:
    info = {"language_info": {"name": "julia"}, "zoom": 1.50}
    return {"cells": list(cells), "metadata": info, "nbformat": 4, "nbformat_minor": minor}


BOOK = book(markdown("top", "# Title\n", "words"), code("calc", "x = 1\n", "print(x)"), code("end"))
STYLES: dict[str, dict[str, Any]] = {
    "one space": {"indent": 1},
    "two spaces": {"indent": 2},
    "tabs": {"indent": "\t"},
    "compact": {"separators": (",", ":")},
    "one line": {},
    "own characters": {"indent": 1, "ensure_ascii": False},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_trapped_workspace(tmp_path)
    (root / "a.ipynb").write_text(json.dumps(BOOK, indent=1) + "\n")
    return root


@pytest.fixture
def tools(root: Path) -> Tools:
    return Tools(root, file_tools, notebook_tools)


def edit_notebook(tools: Tools, root: Path, text: str, **arguments: Any) -> str:
    (root / "b.ipynb").write_bytes(text.encode())
    tools("read", path="b.ipynb")
    tools("notebook_edit", path="b.ipynb", **arguments)
    return (root / "b.ipynb").read_bytes().decode()


class TestCells:
    def test_a_cell_is_replaced_and_its_outputs_are_gone(self, tools: Tools, root: Path):
        tools("read", path="a.ipynb")
        output = tools("notebook_edit", path="a.ipynb", cell_id="calc", source="y = 2\ny\n")
        cell = json.loads((root / "a.ipynb").read_text())["cells"][1]
        assert cell == {
            **BOOK["cells"][1],
            "source": ["y = 2\n", "y\n"],
            "outputs": [],
            "execution_count": None,
        }
        assert output.content == "replaced the code cell 'calc' (index 1) of 'a.ipynb'; it has 3 cells now"
        fields = [output.data[key] for key in ("mode", "cell_id", "index", "cell_type", "cells", "source")]
        assert fields == ["replace", "calc", 1, "code", 3, "y = 2\ny\n"]
        assert '+    "y = 2\\n",' in output.data["diff"]

    @pytest.mark.parametrize(
        ("cell_id", "index"), [("top", 0), ("0", 0), ("cell-1", 1), ("end", 2), ("2", 2)]
    )
    def test_a_cell_is_known_by_id_or_index(self, tools: Tools, cell_id: str, index: int):
        tools("read", path="a.ipynb")
        assert tools.data("notebook_edit", path="a.ipynb", cell_id=cell_id, source="new")["index"] == index

    def test_an_id_goes_before_an_index(self, tools: Tools, root: Path):
        text = edit_notebook(
            tools, root, json.dumps(book(code("1", "a"), code("0", "b"))), cell_id="0", source="new"
        )
        assert [cell["source"] for cell in json.loads(text)["cells"]] == [["a"], ["new"]]

    @pytest.mark.parametrize(("after", "index"), [(None, 0), ("top", 1), ("calc", 2), ("end", 3), ("0", 1)])
    @pytest.mark.parametrize("style", STYLES)
    def test_a_cell_is_inserted_after_another(
        self, tools: Tools, root: Path, after: str | None, index: int, style: str
    ):
        before = json.dumps(BOOK, **STYLES[style])
        where = {} if after is None else {"cell_id": after}
        text = edit_notebook(
            tools, root, before, mode="insert", source="new\ncell", cell_type="markdown", **where
        )
        cells = json.loads(text)["cells"]
        new = cells.pop(index)
        assert len(new.pop("id")) == 8
        assert new == {"cell_type": "markdown", "metadata": {}, "source": ["new\n", "cell"]}
        assert cells == BOOK["cells"]
        assert text == json.dumps(json.loads(text), **STYLES[style])

    @pytest.mark.parametrize("index", [0, 1, 2])
    @pytest.mark.parametrize("style", STYLES)
    def test_a_cell_is_deleted(self, tools: Tools, root: Path, index: int, style: str):
        text = edit_notebook(
            tools, root, json.dumps(BOOK, **STYLES[style]), mode="delete", cell_id=str(index)
        )
        cells = [cell for i, cell in enumerate(BOOK["cells"]) if i != index]
        assert text == json.dumps({**BOOK, "cells": cells}, **STYLES[style])

    @pytest.mark.parametrize("style", STYLES)
    def test_the_last_cell_goes_and_a_first_one_comes(self, tools: Tools, root: Path, style: str):
        text = edit_notebook(
            tools, root, json.dumps(book(code("a"), minor=4), **STYLES[style]), mode="delete", cell_id="a"
        )
        assert text == json.dumps(book(minor=4), **STYLES[style])
        text = edit_notebook(tools, root, text, mode="insert", source="x")
        new: dict[str, Any] = {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": ["x"],
        }
        assert text == json.dumps(book(new, minor=4), **STYLES[style])

    @pytest.mark.parametrize("style", STYLES)
    @pytest.mark.parametrize("source", ["", "x", "a\nb", 'ü → \U0001f600 \\ " \t\n'], ids=repr)
    def test_the_style_of_the_json_is_kept(self, tools: Tools, root: Path, style: str, source: str):
        whole = book(markdown("top", "größe €\n"), code("calc", "x"))
        expected = book(
            markdown("top", "größe €\n"), {**code("calc"), "outputs": [], "execution_count": None}
        )
        expected["cells"][1]["source"] = source.splitlines(keepends=True)
        text = edit_notebook(
            tools, root, json.dumps(whole, **STYLES[style]) + "\n", cell_id="calc", source=source
        )
        assert text == json.dumps(expected, **STYLES[style]) + "\n"

    def test_what_is_not_the_cell_stays_byte_for_byte(self, tools: Tools, root: Path):
        odd = (
            '{\r\n  "nbformat":4,"x" : [1.50,1e5 , NaN],\r\n "cells":[ {"source":"a b",\r\n '
            '"cell_type":"raw" , "z": 1.0} ]}'
        )
        text = edit_notebook(tools, root, odd, cell_id="0", source="c\nd")
        assert text == odd.replace('"a b"', '"c\\nd"')

    def test_a_string_stays_a_string(self, tools: Tools, root: Path):
        before = json.dumps(book({**markdown("a"), "source": "one\ntwo"}))
        assert (
            json.loads(edit_notebook(tools, root, before, cell_id="a", source="x\ny"))["cells"][0]["source"]
            == "x\ny"
        )

    @pytest.mark.parametrize(("before", "kind"), [("calc", "markdown"), ("calc", "raw"), ("top", "code")])
    def test_a_cell_of_another_type_has_what_that_type_has(
        self, tools: Tools, root: Path, before: str, kind: str
    ):
        text = edit_notebook(
            tools, root, json.dumps(BOOK, indent=2), cell_id=before, source="x", cell_type=kind
        )
        cell = next(cell for cell in json.loads(text)["cells"] if cell["id"] == before)
        assert (cell["cell_type"], cell["source"], "outputs" in cell) == (kind, ["x"], kind == "code")
        assert text == json.dumps(json.loads(text), indent=2)

    def test_a_cell_without_text_gets_some(self, tools: Tools, root: Path):
        text = edit_notebook(
            tools, root, json.dumps(book({"cell_type": "raw", "id": "a"}), indent=1), cell_id="a", source="x"
        )
        assert text == json.dumps(book({"cell_type": "raw", "id": "a", "source": ["x"]}), indent=1)

    def test_windows_line_endings_are_kept(self, tools: Tools, root: Path):
        before = json.dumps(BOOK, indent=1).replace("\n", "\r\n")
        text = edit_notebook(tools, root, before, mode="insert", source="a\r\nb")
        assert text.count("\n") == text.count("\r\n")
        assert json.loads(text)["cells"][0]["source"] == ["a\n", "b"]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
    @given(st.text(max_size=20), st.sampled_from(list(STYLES)))
    def test_there_and_back_is_where_it_was(self, tools: Tools, root: Path, source: str, style: str):
        if "\0" in source or "\r" in source or any("\ud800" <= character <= "\udfff" for character in source):
            return
        cell: dict[str, Any] = {**code("calc", "x = 1"), "outputs": [], "execution_count": None}
        before = json.dumps(book(markdown("top", "ü"), cell), **STYLES[style])
        there = edit_notebook(tools, root, before, cell_id="calc", source=source)
        assert "".join(json.loads(there)["cells"][1]["source"]) == source
        assert edit_notebook(tools, root, there, cell_id="calc", source="x = 1") == before

    def test_what_is_previewed_is_what_is_inserted(self, tools: Tools, root: Path):
        tools("read", path="a.ipynb")
        arguments = {"path": "a.ipynb", "mode": "insert", "source": "z", "cell_id": "calc"}
        preview = tools.preview("notebook_edit", **arguments)
        assert tools.preview("notebook_edit", **arguments) == preview
        tools("notebook_edit", **arguments)
        assert f'+   "id": "{json.loads((root / "a.ipynb").read_text())["cells"][2]["id"]}"' in preview

    def test_the_preview_is_the_diff_and_changes_nothing(self, tools: Tools, root: Path):
        tools("read", path="a.ipynb")
        before = snapshot(root)
        assert '-    "x = 1\\n",' in tools.preview(
            "notebook_edit", path="a.ipynb", cell_id="calc", source="z"
        )
        with pytest.raises(ToolError, match="no cell 'nope'"):
            tools.preview("notebook_edit", path="a.ipynb", cell_id="nope", source="z")
        assert snapshot(root) == before

    def test_what_was_not_read_or_has_changed_is_not_edited(self, tools: Tools, root: Path):
        assert "has not been read" in str(
            tools.failure("notebook_edit", path="a.ipynb", cell_id="calc", source="x")
        )
        tools("read", path="a.ipynb")
        (root / "a.ipynb").write_text(json.dumps(BOOK))
        assert "has changed since" in str(
            tools.failure("notebook_edit", path="a.ipynb", cell_id="calc", source="x")
        )


NOT_BOOKS = [
    *(
        "{}",
        "[]",
        "null",
        "1",
        '"x"',
        "{",
        '{"cells": [}',
        "not json",
        '{"cells": 3}',
        '{"cells": null}',
        '{"cells": [3]}',
    ),
    *('{"worksheets": []}', '{"cells": []} {}', '{"cells": [' * 100_000, "[" * 100_000, "\n"),
    '{"cells": [], "x": ' + "9" * 5000 + "}",
    *(
        '{"cells": [{"id": "top"}, {"id": "top"}]}',
        '{"cells": ["top"]}',
        '{"cells": [[]]}',
        '{"cells": {}}',
        "{'cells': []}",
    ),
]


class TestBadNotebooks:
    @pytest.mark.parametrize("text", NOT_BOOKS, ids=lambda text: repr(text)[:40])
    def test_what_is_no_notebook_is_named(self, tools: Tools, root: Path, text: str):
        (root / "b.ipynb").write_text(text)
        tools("read", path="b.ipynb")
        before = snapshot(root.parent)
        error = tools.failure("notebook_edit", path="b.ipynb", cell_id="top", source="x")
        assert "'b.ipynb'" in str(error)
        assert len(str(error)) < 300
        assert snapshot(root.parent) == before

    @pytest.mark.parametrize(
        "metadata",
        ["null", "3", "[]", '{"language_info": "x", "kernelspec": 4}', '{"language_info": {"name": []}}'],
    )
    def test_odd_metadata_does_no_harm(self, tools: Tools, root: Path, metadata: str):
        text = edit_notebook(
            tools, root, f'{{"cells": [{{"source": 3}}], "metadata": {metadata}}}', cell_id="0", source="x"
        )
        assert json.loads(text)["cells"][0]["source"] == ["x"]
