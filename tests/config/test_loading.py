"""A facade that a setting names: an id, a file beside the file that names it, or an object of a module."""

from pathlib import Path
from typing import Any

import pytest
from homes import Home, settings

from toolglot.config.loading import load_facade_by_name
from toolglot.config.setup import Setup
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import find_facade
from toolglot.facades.view import Facade

MINE = """
id = "mine"
[[views]]
name = "terminal"
base = "shell"
fields = { line = "command" }
fixed = { background = false }
parameters = { type = "object", required = ["line"], properties = { line = { type = "string" } } }
"""


def facade_of(facade: str) -> Any:
    return Setup(settings(facade=facade)).resolve_facade()


class TestPaths:
    @pytest.mark.parametrize("name", ["mine.toml", "below/mine.toml", "./mine.toml", "mine.facade"])
    def test_a_file_is_relative_to_the_file_that_names_it(self, home: Home, name: str) -> None:
        for folder in (home.project, home.user_file.parent):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(MINE)
        assert home.read(f'facade = "{name}"').settings.facade == str(home.user_file.parent / name)
        found = home.read("", f'facade = "{name}"', trusted=True)
        assert found.settings.facade == str(home.project / name)
        assert facade_of(found.settings.facade).id == "mine"

    def test_home_and_absolute_paths(self, home: Home) -> None:
        assert home.read('facade = "~/mine.toml"').settings.facade == str(home.directory / "mine.toml")
        assert home.read('facade = "/x/mine.toml"').settings.facade == "/x/mine.toml"

    @pytest.mark.parametrize(
        "name", ["auto", "neutral", "claude-code-2.0", "package.module:mine", "claude-cod", "claude-code-2.1"]
    )
    def test_names_that_are_not_files_stay(self, home: Home, name: str) -> None:
        assert home.read(f'facade = "{name}"').settings.facade == name

    @pytest.mark.parametrize("more", [{"flags": {"facade": "mine.toml"}}, {"environ": {"TOOLGLOT_FACADE": "mine.toml"}}])
    def test_flags_and_variables_are_relative_to_the_current_directory(self, home: Home, more: dict[str, Any]) -> None:
        assert home.read(**more).settings.facade == "mine.toml"

    def test_a_missing_file_is_named_with_its_directory(self, home: Home) -> None:
        name = home.read("", 'facade = "gone.toml"', trusted=True).settings.facade
        with pytest.raises(UsageError, match=f"cannot read the facade '{home.project / 'gone.toml'}': No such file"):
            facade_of(name)


class TestNames:
    def test_ids(self) -> None:
        assert load_facade_by_name("kimi") is find_facade("kimi")

    def test_objects_of_modules(self, tmp_path: Path) -> None:
        (tmp_path / "facade_module.py").write_text(
            "from toolglot.facades.view import Facade\nmine = Facade(id='mine', title='', views=())\nother = 3\n"
        )
        found = load_facade_by_name("facade_module:mine")
        assert isinstance(found, Facade)
        assert found.id == "mine"
        with pytest.raises(UsageError, match="'facade_module:other' is not a Facade"):
            load_facade_by_name("facade_module:other")

    @pytest.mark.parametrize("name", ["claude-cod", "claude-code-2.1"])
    def test_a_name_that_is_nearly_an_id_is_no_file(self, name: str) -> None:
        with pytest.raises(UnknownName, match="did you mean 'claude-code"):
            load_facade_by_name(name)

    @pytest.mark.parametrize(("name", "data", "sentence"), [
        ("gone.toml", None, "cannot read the facade 'gone.toml': No such file or directory"),
        ("a:b.toml", None, "cannot read the facade 'a:b.toml': No such file or directory"),
        ("~nobody-at-all/x.toml", None, "cannot read the facade '~nobody-at-all/x.toml': No such file or directory"),
        ("x.toml", b"\xff", "cannot read the facade 'x.toml': it is not UTF-8"),
        ("x.toml", b"titel = 1", "x.toml: unknown key 'titel'; did you mean 'title'?"),
        ("x.toml", MINE.replace("command", "comand").encode(),
            "x.toml: views[0].fields: unknown parameter of shell 'comand'; did you mean 'command'?"),
        ("x.toml", MINE.replace("false", "'maybe'").encode(),
            'x.toml: views[0].fixed.background: "maybe" is not of type "boolean"'),
    ])  # fmt: skip
    def test_errors_are_one_sentence(self, tmp_path: Path, name: str, data: bytes | None, sentence: str) -> None:
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(UsageError) as error:
            load_facade_by_name(name)
        assert str(error.value) == sentence

    def test_a_byte_order_mark_does_no_harm(self, tmp_path: Path) -> None:
        (tmp_path / "x.toml").write_text("\ufeff" + MINE, encoding="utf-8")
        assert load_facade_by_name("x.toml").id == "mine"

    def test_values_are_not_checked_without_a_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file, folder = tmp_path / "x.toml", tmp_path / "gone"
        file.write_text(MINE.replace("false", "'maybe'"))
        folder.mkdir()
        monkeypatch.chdir(folder)
        folder.rmdir()
        assert load_facade_by_name(str(file)).views[0].cases[""].fixed == {"background": "maybe"}
