"""A facade that a setting names: an id, a file beside the file that names it, or an object of a module."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from homes import Home, settings

from toolglot.config.loading import load_facade_by_name, load_tools
from toolglot.config.setup import Setup, load_configured_tools
from toolglot.config.trust import trust_directory
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
        "name", ["auto", "neutral", "claude-code-2.0", "package.module:mine", "claude-cod", "claude-code-2.2"]
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
        found = load_facade_by_name("facade_module:mine", directory=tmp_path)
        assert isinstance(found, Facade)
        assert found.id == "mine"
        with pytest.raises(UsageError, match="'facade_module:other' is not a Facade"):
            load_facade_by_name("facade_module:other", directory=tmp_path)

    @pytest.mark.parametrize("name", ["claude-cod", "claude-code-2.2"])
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


HOSTILE = "import pathlib\npathlib.Path({mark!r}).touch()\nALL = []\n"
GOOD = "import good_helper\nfrom toolglot import tool\nALL = [tool(lambda: 1, name='good')]\n"


class TestHostileDirectory:
    """What the user configured is never taken from the directory that happens to be the current one."""

    @pytest.fixture
    def mark(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
        """An installed module with tools, and a project with modules of the same names, which leave a mark."""
        mark, site = home.directory / "mark", home.directory / "site"
        site.mkdir()
        (site / "good_tools.py").write_text(GOOD)
        (site / "good_helper.py").touch()
        for name in ("good_tools", "good_helper", "absent_tools", "colorsys"):
            (home.project / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)))
        monkeypatch.setattr(sys, "path", [str(site), *sys.path])
        monkeypatch.chdir(home.project)
        for name in ("good_tools", "good_helper", "absent_tools", "colorsys"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return mark

    @pytest.mark.parametrize("more", [
        {"user": 'tools = ["good_tools:ALL"]'},
        {"environ": {"TOOLGLOT_TOOLS": "good_tools:ALL"}},
        {"project": 'tools = ["good_tools:ALL"]', "trusted": True},
    ])  # fmt: skip
    def test_installed_modules_come_first(self, home: Home, mark: Path, more: dict[str, Any]) -> None:
        assert [tool.name for tool in load_configured_tools(home.read(**more))] == ["good"]
        assert not mark.exists()

    @pytest.mark.parametrize("name", ["absent_tools:ALL", "absent_tools.py:ALL"])
    @pytest.mark.parametrize("source", ["user file", "variable"])
    def test_modules_of_the_current_directory_are_not_found(self, home: Home, mark: Path, source: str, name: str) -> None:
        for setting, value in (("tools", f'["{name}"]'), ("facade", f'"{name}"')):
            variables = {f"TOOLGLOT_{setting.upper()}": name} if source == "variable" else {}
            found = home.read("" if variables else f"{setting} = {value}", environ=variables)
            setup = Setup(found.settings, code_directory=found.code_directories.get("facade"))
            with pytest.raises(UsageError, match="cannot load"):
                setup.resolve_facade() if setting == "facade" else load_configured_tools(found)
        assert not mark.exists()

    def test_a_trusted_directory_a_trusted_file_and_a_flag_may_name_them(self, home: Home, mark: Path) -> None:
        (home.project / "my_tools.py").write_text("from toolglot import tool\nALL = [tool(lambda: 1, name='mine')]\n")
        assert load_tools("my_tools.py:ALL", home.project)[0].name == "mine"  # as --tools does
        found = home.read("", 'tools = ["my_tools:ALL"]', trusted=True)
        assert load_configured_tools(found)[0].name == "mine"
        variables = {"TOOLGLOT_TOOLS": "my_tools.py:ALL"}
        with pytest.raises(UsageError, match="use its full path, pass it with a flag, or trust the current directory"):
            load_configured_tools(home.read(environ=variables))
        trust_directory(home.project)
        assert load_configured_tools(home.read(environ=variables))[0].name == "mine"

    def test_a_file_is_relative_to_the_file_that_names_it(self, home: Home, mark: Path) -> None:
        (home.user_file.parent / "absent_tools.py").write_text(
            "from toolglot import tool\nALL = [tool(lambda: 1, name='own')]\n"
        )
        for name in ("absent_tools.py:ALL", "absent_tools:ALL"):
            assert load_configured_tools(home.read(f'tools = ["{name}"]'))[0].name == "own"
        assert not mark.exists()

    def test_a_file_that_is_loaded_does_not_take_the_name_of_an_installed_module(self, home: Home, mark: Path) -> None:
        load_tools("colorsys.py:ALL", home.project)
        assert mark.exists()
        assert import_module("colorsys").__file__ != str(home.project / "colorsys.py")
        assert str(home.project) not in sys.path
