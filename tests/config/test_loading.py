"""Tools and facades that a setting names: an id, or an object of a module or of a file beside the file that
names it.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from homes import Home

from toolglot.config.layers import Configuration
from toolglot.config.loading import load_facade_by_name, load_tools
from toolglot.config.setup import Setup, load_configured_tools
from toolglot.config.trust import trust_directory
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import find_facade
from toolglot.facades.view import Facade

FACADE = "from toolglot import Facade\nmine = Facade(id={!r}, title='', views=())\n"


def facade_of(configuration: Configuration) -> Any:
    return Setup(
        configuration.settings, code_directory=configuration.code_directories.get("facade")
    ).resolve_facade()


class TestPaths:
    @pytest.fixture(autouse=True)
    def facades(self, home: Home) -> None:
        """A facade beside the user's file, and another one in the project."""
        for directory, name in ((home.user_file.parent, "user"), (home.project, "project")):
            (directory / "my_facade.py").write_text(FACADE.format(name))

    def test_a_file_is_relative_to_the_file_that_names_it(self, home: Home) -> None:
        assert facade_of(home.read('facade = "my_facade.py:mine"')).id == "user"
        assert facade_of(home.read("", 'facade = "my_facade.py:mine"', trusted=True)).id == "project"

    def test_a_file_may_have_its_full_path(self, home: Home) -> None:
        (home.directory / "home_facade.py").write_text(FACADE.format("home"))
        assert facade_of(home.read('facade = "~/home_facade.py:mine"')).id == "home"
        assert facade_of(home.read(f'facade = "{home.directory}/home_facade.py:mine"')).id == "home"

    @pytest.mark.parametrize(
        "name",
        [
            "auto",
            "neutral",
            "claude-code-2.0",
            "package.module:mine",
            "claude-cod",
            "mine.py:mine",
            "~/mine.py:mine",
        ],
    )
    def test_a_name_stays_as_it_is_written(self, home: Home, name: str) -> None:
        assert home.read(f'facade = "{name}"').settings.facade == name

    def test_a_missing_file_is_named(self, home: Home) -> None:
        with pytest.raises(UsageError, match=r"cannot load 'gone\.py:mine': .*No such file"):
            facade_of(home.read("", 'facade = "gone.py:mine"', trusted=True))


class TestNames:
    def test_ids(self) -> None:
        assert load_facade_by_name("kimi") is find_facade("kimi")

    def test_objects_of_modules(self, tmp_path: Path) -> None:
        (tmp_path / "facade_module.py").write_text(
            "from toolglot.facades.view import Facade\nmine = Facade(id='mine', title='', views=())\nother = "
            "3\n"
        )
        facade = load_facade_by_name("facade_module:mine", directory=tmp_path)
        assert isinstance(facade, Facade)
        assert facade.id == "mine"
        with pytest.raises(UsageError, match="'facade_module:other' is not a Facade"):
            load_facade_by_name("facade_module:other", directory=tmp_path)

    @pytest.mark.parametrize("name", ["claude-cod", "claude-code-2.2", "claude-code.toml"])
    def test_a_name_that_is_nearly_an_id_suggests_it(self, name: str) -> None:
        with pytest.raises(UnknownName, match="did you mean 'claude-code"):
            load_facade_by_name(name)


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

    @pytest.mark.parametrize("arguments", [
        {"user": 'tools = ["good_tools:ALL"]'},
        {"environ": {"TOOLGLOT_TOOLS": "good_tools:ALL"}},
        {"project": 'tools = ["good_tools:ALL"]', "trusted": True},
    ])  # fmt: skip
    def test_installed_modules_come_first(self, home: Home, mark: Path, arguments: dict[str, Any]) -> None:
        assert [tool.name for tool in load_configured_tools(home.read(**arguments))] == ["good"]
        assert not mark.exists()

    @pytest.mark.parametrize("name", ["absent_tools:ALL", "absent_tools.py:ALL"])
    @pytest.mark.parametrize("source", ["user file", "variable"])
    def test_modules_of_the_current_directory_are_not_found(
        self, home: Home, mark: Path, source: str, name: str
    ) -> None:
        for setting, value in (("tools", f'["{name}"]'), ("facade", f'"{name}"')):
            variables = {f"TOOLGLOT_{setting.upper()}": name} if source == "variable" else {}
            configuration = home.read("" if variables else f"{setting} = {value}", environ=variables)
            setup = Setup(configuration.settings, code_directory=configuration.code_directories.get("facade"))
            with pytest.raises(UsageError, match="cannot load"):
                setup.resolve_facade() if setting == "facade" else load_configured_tools(configuration)
        assert not mark.exists()

    def test_a_trusted_directory_a_trusted_file_and_a_flag_may_name_them(
        self, home: Home, mark: Path
    ) -> None:
        (home.project / "my_tools.py").write_text(
            "from toolglot import tool\nALL = [tool(lambda: 1, name='mine')]\n"
        )
        assert load_tools("my_tools.py:ALL", home.project)[0].name == "mine"  # as --tools does
        configuration = home.read("", 'tools = ["my_tools:ALL"]', trusted=True)
        assert load_configured_tools(configuration)[0].name == "mine"
        variables = {"TOOLGLOT_TOOLS": "my_tools.py:ALL"}
        with pytest.raises(
            UsageError, match="use its full path, pass it with a flag, or trust the current directory"
        ):
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

    def test_a_file_that_is_loaded_does_not_take_the_name_of_an_installed_module(
        self, home: Home, mark: Path
    ) -> None:
        load_tools("colorsys.py:ALL", home.project)
        assert mark.exists()
        assert import_module("colorsys").__file__ != str(home.project / "colorsys.py")
        assert str(home.project) not in sys.path
