"""Plug-ins: the example package is installed and every part of it used; what is wrong with others names their
packages.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent_kit import setup_of
from tests.cli.cli_kit import run_cli

from toolglot.cli.startup import Flags, prepare
from toolglot.common import plugins
from toolglot.config.loading import load_tools
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup
from toolglot.engine import auth
from toolglot.engine.factory import create_engine
from toolglot.engine.signin.environment import read_key_variable, secret_values
from toolglot.errors import InvalidTool, UnknownName, UsageError
from toolglot.facades.catalog import find_facade
from toolglot.loop.agent.agent import Agent
from toolglot.providers import catalog
from toolglot.values.messages import user
from toolglot.values.request import Options, Request
from toolglot.wire import codec
from toolglot.wire.codec import create_reader, decode_request, encode_request
from toolglot.wire.spec import SPECS

EXAMPLE = Path(__file__).parents[2] / "examples" / "toolglot-example-plugin"
CHAT_BODY = '{"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}'
ROLL = 'call roll_dice {"sides": 1}'
CACHES = (
    *(plugins.find_plugin, plugins._read_entry_points, catalog.resolve_profile, auth._sign_in),  # pyright: ignore[reportPrivateUsage]
    *(codec._load, codec.load_request_encoder),  # pyright: ignore[reportPrivateUsage]
)


@pytest.fixture(autouse=True)
def forget_plugins(isolated_home: Path) -> Iterator[None]:
    """What one test installs is not there in the next."""
    path, profiles, specs, modules = [*sys.path], dict(catalog.PROFILES), dict(SPECS), {*sys.modules}
    for function in CACHES:
        function.cache_clear()
    yield
    sys.path[:] = path
    for table, saved in ((catalog.PROFILES, profiles), (SPECS, specs)):
        for name in table.keys() - saved.keys():
            del table[name]
    for name in {*sys.modules} - modules:
        if name.partition(".")[0].startswith(("toolglot_example_plugin", "fake_")):
            del sys.modules[name]
    for function in CACHES:
        function.cache_clear()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that the example is installed in, from its own pyproject.toml."""
    pytest.importorskip("hatchling", reason="the build backend of the example is not installed")
    target = tmp_path_factory.mktemp("site")
    words = (
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--disable-pip-version-check",
        "--target",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *words, target, EXAMPLE], capture_output=True, text=True
    )
    if "No module named pip" in done.stderr:
        pytest.skip("pip is not installed")
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def example(site: Path) -> None:
    sys.path.append(str(site))


Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Install a package with one entry point, as pip leaves it behind."""

    def install(package: str, kind: str, name: str, target: str, code: str = "") -> None:
        directory = tmp_path / f"{package}-site"
        info = directory / f"{package}-2.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
        (info / "entry_points.txt").write_text(f"[toolglot.{kind}]\n{name} = {target}\n")
        (directory / f"{target.partition(':')[0]}.py").write_text(code)
        sys.path.append(str(directory))

    return install


@pytest.mark.usefixtures("example")
class TestExample:
    def test_doctor_lists_one_of_each_kind(self) -> None:
        report = json.loads(run_cli("doctor", "--json").out)
        rows = [row for row in report["plugins"] if row["package"] == "toolglot-example-plugin"]
        assert {row["kind"] for row in rows} == {*plugins.PLUGIN_KINDS}
        assert {row["version"] for row in rows} == {"1.0"}
        assert "toolglot_example_plugin.tools:DICE_TOOLS" in run_cli("doctor").out

    def test_tools_by_flag_and_by_setting(self, isolated_home: Path) -> None:
        outcome = run_cli("run", "--tools", "dice", ROLL)
        assert (outcome.code, outcome.out) == (0, "Here is what came back. roll_dice: [1].\n")
        (isolated_home / "user" / "config.toml").write_text('tools = ["dice"]\n')
        assert run_cli("run", ROLL).out == outcome.out

    def test_a_command(self) -> None:
        assert run_cli("roll", "--sides", "1").out == "1\n"
        assert "Roll a die." in run_cli("roll", "--help").out
        failed = run_cli("roll", "--sides", "0")
        assert (failed.code, failed.err) == (
            2,
            "toolglot: a die with 0 sides cannot be rolled: use --sides 6\n",
        )
        assert "did you mean 'roll'?" in run_cli("rol").err
        assert "Commands from plug-ins:\n  roll  toolglot-example-plugin 1.0\n" in run_cli("--help").out

    def test_a_provider_with_its_wire_sign_in_and_transport(self, isolated_home: Path) -> None:
        (isolated_home / "user" / "config.toml").write_text(
            'transport = "parrot-cage"\n[providers.parrot]\nheaders = { x-cage = "gold" }\n'
        )
        outcome = run_cli("run", "-m", "parrot:polly", "--no-builtin", "--tools", "dice", ROLL)
        assert (outcome.code, outcome.out) == (0, "Here is what came back. roll_dice: [1].\n")
        assert "parrot-lines" in run_cli("models", "parrot:polly").out
        assert "did you mean 'parrot'?" in run_cli("run", "-m", "parot:polly", "hi").err
        assert "'parrot' is a provider: add a model" in run_cli("run", "-m", "parrot", "hi").err
        body = run_cli("convert", "--from", "openai-chat", "--to", "parrot-lines", stdin=CHAT_BODY)
        assert json.loads(body.out)["messages"][0]["text"] == "hi", body.err

    def test_a_facade(self, isolated_home: Path) -> None:
        (isolated_home / "a.txt").write_text("gold")
        outcome = run_cli("run", "--builtin", "--facade", "pirate", 'call unroll {"scroll": "a.txt"}')
        assert outcome.out == "Here is what came back. unroll: Arr, a.txt says:\ngold.\n"
        (isolated_home / "pirate").write_text("not a facade")  # nor is any file of this name meant
        (isolated_home / "user" / "config.toml").write_text('facade = "pirate"\n')
        assert run_cli("run", "--builtin", 'call unroll {"scroll": "a.txt"}').out == outcome.out
        agent = Agent("simulator", facade="pirate")
        assert setup_of(agent).config.facade is find_facade("pirate")

    def test_in_python(self) -> None:
        agent = Agent("simulator:parrot/polly", tools=load_tools("dice"))
        assert agent.run_sync(ROLL).text == "Here is what came back. roll_dice: [1]."
        assert agent.view().engine.profile.wire == "parrot-lines"
        engine = create_engine("parrot:polly")
        assert engine.profile.title == "Parrot"
        assert asyncio.run(engine.keys.headers()) == {"authorization": "Bearer cracker"}

    def test_the_wire_converts_both_ways_and_reports_losses(self) -> None:
        request = Request("polly", [user("hi")], options=Options(temperature=0.5, top_p=0.1))
        encoded = encode_request(request, catalog.resolve_profile("parrot", "polly"))
        assert encoded.body["squawkiness"] == 0.5
        assert [loss.subject for loss in encoded.losses] == ["top_p"]
        assert decode_request("parrot-lines", encoded.body).messages[0].text == "hi"
        assert create_reader("parrot-lines")

    def test_its_key_is_hidden_like_all_others(self) -> None:
        os.environ["PARROT_KEY"] = "polly-secret-0123456789"
        with prepare(Flags(model="parrot:polly", builtin=False)) as cli_setup:
            cli_setup.create_agent(approve=None)
            assert "PARROT_KEY" not in os.environ
            assert read_key_variable("PARROT_KEY") == "polly-secret-0123456789"
            assert "polly-secret-0123456789" in secret_values()


class TestMistakes:
    def test_two_packages_are_both_named(self, install: Install) -> None:
        for package in ("fake_a", "fake_b"):
            install(package, "facades", "mine", f"{package}:FACADE")
        with pytest.raises(
            UsageError,
            match=r"several packages have the facade 'mine': fake_a 2\.0, fake_b 2\.0; uninstall all",
        ):
            find_facade("mine")
        assert "several packages have the facade 'mine'" in run_cli("doctor").out

    def test_a_name_of_toolglots_own_stays_toolglots(self, install: Install) -> None:
        install("fake_own", "facades", "codex", "fake_own:FACADE", "raise RuntimeError")
        assert find_facade("codex").title == "Codex"
        outcome = run_cli("doctor", "--json")
        conflict = (
            "several packages have the facade 'codex': toolglot, fake_own 2.0; the built-in one is used"
        )
        assert conflict in json.loads(outcome.out)["problems"]
        assert outcome.code == 1

    @pytest.mark.parametrize("lines", [b"nonsense", b"\xff = x:y"])
    def test_a_package_that_cannot_be_read_hides_no_other(
        self, install: Install, tmp_path: Path, lines: bytes
    ) -> None:
        install("fake_damaged", "tools", "x", "fake_damaged:X")
        (tmp_path / "fake_damaged-site/fake_damaged-2.0.dist-info/entry_points.txt").write_bytes(
            b"[console_scripts]\n" + lines
        )
        install("fake_fine", "tools", "fine", "fake_fine:TOOLS", "TOOLS = [print]")
        assert load_tools("fine") == [print]
        outcome = run_cli("doctor", "--json")
        report = json.loads(outcome.out)
        assert outcome.code == 1
        assert "fine" in [row["name"] for row in report["plugins"]]
        (problem,) = (each for each in report["problems"] if "fake_damaged" in each)
        assert problem.startswith("the entry points of the package fake_damaged cannot be read: ")
        assert problem.endswith("; reinstall it")

    def test_of_two_versions_the_first_on_the_path_counts(self, install: Install, tmp_path: Path) -> None:
        install("fake_twice", "tools", "twice", "fake_twice:ONE")
        sys.path.append(str(shutil.copytree(tmp_path / "fake_twice-site", tmp_path / "other")))
        assert plugins.plugin_names("tools").count("twice") == 1

    @pytest.mark.parametrize(
        "code", ["raise RuntimeError('broken')", "raise SystemExit('broken')", "import no_such_module"]
    )
    def test_one_that_fails_to_load_is_one_sentence(self, install: Install, code: str) -> None:
        install("fake_broken", "commands", "broken", "fake_broken:run", code)
        outcome = run_cli("broken")
        assert outcome.code == 2
        problem = "the command 'broken' of the package fake_broken 2.0 cannot be loaded: "
        assert outcome.err.startswith(f"toolglot: {problem}")
        assert outcome.err.count("\n") == 1
        assert [
            each
            for each in json.loads(run_cli("doctor", "--json").out)["problems"]
            if each.startswith(problem)
        ]

    def test_an_unknown_one_is_an_error_in_python(self, install: Install) -> None:
        install("fake_dice", "tools", "dice", "fake_dice:TOOLS", "TOOLS = [print]")
        assert plugins.load_plugin("tools", "dice") == [print]
        with pytest.raises(UnknownName, match="unknown plug-in with tools 'dise'; did you mean 'dice'"):
            plugins.load_plugin("tools", "dise")
        with pytest.raises(UnknownName, match="unknown kind of plug-in 'tool'; did you mean 'tools'"):
            plugins.load_plugin("tool", "dice")  # type: ignore[arg-type]
        with pytest.raises(InvalidTool, match=r"'dice' cannot be a tool: .* load_plugin\('tools', NAME\)"):
            Agent("simulator", tools=["dice"])  # type: ignore[list-item]

    def test_a_command_that_crashes_is_told_apart_from_our_own(self, install: Install) -> None:
        code = "import click\n\n\n@click.command()\ndef run():\n    raise ValueError('oh')\n"
        install("fake_crash", "commands", "crash", "fake_crash:run", code)
        outcome = run_cli("crash")
        assert outcome.code == 1
        assert "unexpected ValueError in the plug-in command 'crash': oh (this is a bug" in outcome.err

    def test_what_is_of_another_kind_names_the_package(self, install: Install) -> None:
        uses: dict[str, tuple[Callable[[], object], str]] = {
            "facades": (lambda: find_facade("odd"), "is not a Facade"),
            "profiles": (lambda: create_engine("odd:x"), "is not a Profile with the id 'odd'"),
            "wires": (lambda: create_reader("odd"), "is not a WireSpec with the name 'odd'"),
            "sign_ins": (lambda: auth._sign_in("odd"), "is not a SignIn"),  # pyright: ignore[reportPrivateUsage]
            "transports": (
                lambda: Setup(Settings(transport="odd")).engine("openai:gpt-5"),
                "is not a function that returns",
            ),
            "commands": (lambda: run_cli("odd"), ""),
            "tools": (lambda: load_tools("odd"), "'odd' is not a tool, a list of tools"),
        }
        assert {*uses} == {*plugins.PLUGIN_KINDS}
        for kind in uses:
            install(f"fake_{kind}", kind, "odd", f"fake_{kind}:ODD", "ODD = 5")
        for kind, (use, problem) in uses.items():
            if problem:
                with pytest.raises(UsageError, match=problem) as error:
                    use()
                assert kind == "tools" or f"of the package fake_{kind} 2.0" in str(error.value)
        assert "of the package fake_commands 2.0 is not a click command" in run_cli("odd").err

    def test_a_wire_without_its_modules_names_the_package(self, install: Install) -> None:
        code = "from toolglot.wire.spec import WireSpec\n"
        code += (
            "W = WireSpec(name='fake', package='fake_wire', class_prefix='F', default_profile='x', "
            "options={})\n"
        )
        install("fake_wire", "wires", "fake", "fake_wire:W", code)
        with pytest.raises(
            UsageError, match=r"'fake' of the package fake_wire 2\.0 cannot be loaded: No module named"
        ):
            create_reader("fake")

    def test_unknown_names_are_suggested(self, install: Install) -> None:
        install("fake_tools", "tools", "weather-kit", "fake_tools:TOOLS", "TOOLS = []")
        with pytest.raises(UsageError, match="did you mean 'weather-kit'"):
            load_tools("weather-kitt")
        with pytest.raises(UnknownName, match="unknown transport 'none'"):
            Setup(Settings(transport="none")).engine("openai:gpt-5")
        with pytest.raises(UnknownName, match="unknown wire"):
            create_reader("no-wire")
        with pytest.raises(UnknownName, match="unknown sign-in"):
            auth._sign_in("no-sign-in")  # pyright: ignore[reportPrivateUsage]


def test_names_of_our_own_cost_nothing() -> None:
    """No entry point is read unless a name is used that toolglot does not have."""
    code = (
        "from toolglot import Agent, tool\nfrom toolglot.common import plugins\n"
        "agent = Agent('simulator:openai', tools=[tool(lambda: 1, name='one')], facade='codex')\n"
        "agent.run_sync('call one {}')\n"
        "assert plugins._read_entry_points.cache_info().misses == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
