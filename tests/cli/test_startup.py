"""Startup of the commands: configuration, trust, hidden keys, tools, and the model."""

import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cli_kit import Capture, Patch

from toolglot.cli.run import run
from toolglot.cli.startup import Flags, prepare, require_key
from toolglot.config.trust import is_trusted
from toolglot.engine.auth import describe_key_origin
from toolglot.engine.factory import create_engine
from toolglot.errors import UnknownName, UsageError
from toolglot.providers import catalog
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.tool import Tool

TOOLS = """
import os
from toolglot import tool

SEEN = {name: value for name, value in os.environ.items() if "API_KEY" in name or name == "MY_OWN_KEY"}

@tool
def read_file(path: str) -> str:
    'Read a file.'
    return path

@tool(effects="write")
def write_file(path: str) -> str:
    'Write a file.'
    return path

def plain(a: int) -> int:
    'Add one.'
    return a + 1

ALL = [read_file, write_file, plain]
ODD = [1, 2]
"""


@pytest.fixture(autouse=True)
def home(isolated_home: Path, monkeypatch: Patch) -> Path:
    work = isolated_home / "work"
    work.mkdir()
    (work / "start_tools.py").write_text(TOOLS)
    monkeypatch.chdir(work)
    return work


def user_file(text: str) -> None:
    Path(os.environ["TOOLGLOT_CONFIG"]).write_text(text)


def names(tools: list[object]) -> list[str]:
    return [item.name if isinstance(item, Tool) else getattr(item, "__name__", "") for item in tools]


DEFAULT_MODELS = [f"{provider}:{model}" for provider, model in catalog.DEFAULT_MODELS.items()]


class TestPrecedence:
    def test_flags_override_environment_overrides_user_file(self) -> None:
        user_file(
            'model = "simulator:gemini"\nsystem = "user"\n[limits]\nmax_iterations = 3\n[policy]\nallow = '
            '["read_*"]\n'
        )
        os.environ["TOOLGLOT_MODEL"] = "simulator:ollama"
        cli_setup = prepare(Flags())
        assert (cli_setup.model, cli_setup.setup.settings.system) == ("simulator:ollama", "user")
        flags = Flags(
            model="simulator:openai",
            system="flag",
            max_iterations=7,
            allow=("write_*",),
            tools=("start_tools:ALL",),
        )
        cli_setup = prepare(flags)
        settings = cli_setup.setup.settings
        assert cli_setup.model == "simulator:openai"
        assert (settings.system, settings.limits.max_iterations, settings.policy.allow) == (
            "flag",
            7,
            ("write_*",),
        )

    @pytest.mark.parametrize("model", ["", "g"], ids=["empty", "alias"])
    def test_model_is_resolved(self, model: str) -> None:
        user_file('model = "simulator:gemini"\n[aliases]\ng = "simulator:gemini"\n')
        assert prepare(Flags(model=model)).model == "simulator:gemini"

    def test_flags_that_are_off_set_nothing_and_a_flag_can_disable(self) -> None:
        assert Flags(model="", no_mcp=False).to_settings() == {}
        flags = Flags(no_sandbox=True, builtin=False, system="", defer=("all",), log_file=Path("x"))
        settings = {
            "builtin.sandbox": False,
            "builtin.enabled": False,
            "system": "",
            "defer": ("all",),
            "log.file": Path("x"),
        }
        assert flags.to_settings() == settings

    def test_every_flag_is_an_option_and_every_option_a_flag(self) -> None:
        options = {parameter.name for parameter in run.params}
        assert {*Flags.__struct_fields__} == options - {"prompt", "attach", "yes", "json"}

    def test_deny_adds_to_the_configured_list(self) -> None:
        user_file('[policy]\ndeny = ["write_*"]\n')
        cli_setup = prepare(Flags(deny=("pl*",), tools=("start_tools:ALL",)))
        assert cli_setup.setup.settings.policy.deny == ("write_*", "pl*")
        agent = cli_setup.setup.create_agent(cli_setup.model, tools=cli_setup.tools)
        assert agent.config.allow == {"read_file"}

    @pytest.mark.parametrize(
        ("allow", "deny", "offered"),
        [
            ((), (), {"read_file", "write_file", "plain"}),
            (("*_file",), (), {"read_file", "write_file"}),
            (("plain",), (), {"plain"}),
            ((), ("*_file",), {"plain"}),
            (("*",), ("write_*",), {"read_file", "plain"}),
        ],
    )
    def test_patterns_select_tools(
        self, allow: tuple[str, ...], deny: tuple[str, ...], offered: set[str]
    ) -> None:
        cli_setup = prepare(Flags(allow=allow, deny=deny, tools=("start_tools:ALL",)))
        agent = cli_setup.setup.create_agent(cli_setup.model, tools=cli_setup.tools)
        assert {tool.name for tool in agent.view().model_view.tools()} == offered


class TestTools:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (
                Flags(allow=("read_fil",), tools=("start_tools:ALL",)),
                "unknown tool in --allow 'read_fil'; did you mean 'read_file'",
            ),
            (Flags(allow=("read_file",)), "--allow 'read_file' matches no tool: none are loaded"),
            (
                Flags(allow=("nope*",), tools=("start_tools:ALL",)),
                r"unknown tool in --allow 'nope\*'; known: plain, read_file, ",
            ),
            (
                Flags(allow=("WebSearch",), builtin=True),
                "WebSearch cannot be used: no search service is configured",
            ),
            (Flags(facade="nope"), "unknown facade 'nope'"),
            *(
                (Flags(tools=(name,)), ".")
                for name in ("nowhere:x", "start_tools:missing", "start_tools:ODD", "", ":")
            ),
        ],
    )
    def test_wrong_flag_is_an_error(self, flags: Flags, message: str, capsys: Capture) -> None:
        with pytest.raises(UsageError, match=message):
            prepare(flags)
        assert capsys.readouterr().err == ""

    def test_unknown_pattern_in_a_file_is_not_an_error(self) -> None:
        user_file('[policy]\nallow = ["git_*"]\n')
        prepare(Flags(tools=("start_tools:ALL",)))

    def test_denying_what_is_not_there_is_an_error(self) -> None:
        prepare(Flags(deny=("shell",), tools=("start_tools:ALL",)))  # a built-in tool that is not loaded
        with pytest.raises(UnknownName, match=r"unknown tool in --deny 'zzz\*'"):
            prepare(Flags(deny=("zzz*", "shell"), tools=("start_tools:ALL",)))

    def test_configured_tools_and_flags_are_loaded(self) -> None:
        user_file(f'tools = ["{Path.cwd() / "start_tools.py"}:read_file"]\n')
        assert names(prepare(Flags(tools=("start_tools:plain",))).tools) == ["read_file", "plain"]

    @pytest.mark.parametrize(
        ("flags", "has_demo_tools"),
        [
            (Flags(), True),
            (Flags(model="simulator:gemini"), True),
            (Flags(tools=("start_tools:plain",)), False),
            (Flags(model="anthropic:claude-sonnet-4-5", builtin=False), False),
            (Flags(model="anthropic:claude-sonnet-4-5"), False),
        ],
    )
    def test_demo_tools_are_for_a_simulator_without_tools(self, flags: Flags, has_demo_tools: bool) -> None:
        with prepare(flags, use_demo_tools=True) as cli_setup:
            assert ("get_weather" in names(cli_setup.tools)) is cli_setup.has_demo_tools is has_demo_tools
        with prepare(flags) as cli_setup:
            assert "get_weather" not in names(cli_setup.tools)

    @pytest.mark.parametrize(
        ("flags", "reason"),
        [
            ({"facade": "codex"}, "the simulator offers built-in tools only with --builtin"),
            ({"facade": "codex", "builtin": False}, "the built-in tools are disabled"),
            ({"facade": "codex", "builtin": True}, ""),
            ({}, ""),
        ],
    )
    def test_facade_without_tools_is_reported(
        self, flags: dict[str, Any], reason: str, capsys: Capture
    ) -> None:
        with prepare(Flags(model="simulator", **flags)):
            assert capsys.readouterr().err == (
                f"toolglot: --facade codex has no effect: {reason}\n" if reason else ""
            )


class TestKeys:
    def test_keys_are_hidden_before_code_of_tools_is_loaded_and_used_all_the_same(self) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        os.environ["MY_OWN_KEY"] = "own"
        user_file('[providers.openai]\nkey_env = "MY_OWN_KEY"\n')
        assert prepare(Flags(tools=("start_tools:ALL",))).model == DEFAULT_MODELS[0]
        assert sys.modules["start_tools"].SEEN == {}
        assert "ANTHROPIC_API_KEY" not in os.environ
        assert describe_key_origin(resolve_profile("anthropic", "x")) is not None

    @pytest.mark.parametrize("by_user", [True, False])
    def test_keep_env_needs_the_user_or_trust(self, by_user: bool, home: Path) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        os.environ["OPENAI_API_KEY"] = "sk-test"
        file = Path(os.environ["TOOLGLOT_CONFIG"]) if by_user else home / "toolglot.toml"
        file.write_text('[policy]\nkeep_env = ["ANTHROPIC_API_KEY"]\n')
        prepare(Flags())
        assert ("ANTHROPIC_API_KEY" in os.environ) is by_user
        assert "OPENAI_API_KEY" not in os.environ

    def test_missing_key_is_an_error_that_says_what_to_do(self) -> None:
        with pytest.raises(UsageError, match=r"ANTHROPIC_API_KEY.*toolglot login anthropic"):
            require_key(create_engine("anthropic:claude-sonnet-4-5"))
        require_key(create_engine("anthropic:claude-sonnet-4-5", key="sk-ant-test"))
        for model in ("simulator", "simulator:openai", "ollama:llama3"):
            require_key(create_engine(model))


class TestModel:
    @pytest.mark.parametrize("index", range(len(DEFAULT_MODELS) + 1))
    def test_first_provider_with_a_key_is_used(self, index: int) -> None:
        for model in DEFAULT_MODELS[index:]:
            os.environ[resolve_profile(*model.partition(":")[::2]).key_env[0]] = "test-key"
        cli_setup = prepare(Flags())
        assert cli_setup.model == (*DEFAULT_MODELS, "simulator")[index]
        assert (
            "a key for this one was found" if index < len(DEFAULT_MODELS) else "TOOLGLOT_MODEL"
        ) in cli_setup.model_reason
        assert "test-key" not in cli_setup.model_reason

    def test_named_model_has_no_reason(self) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        cli_setup = prepare(Flags(model="simulator:gemini"))
        assert (cli_setup.model, cli_setup.model_reason) == ("simulator:gemini", "")
        with pytest.raises(UsageError, match="neither PROVIDER:MODEL"):
            prepare(Flags(model="clod"))


class Confirm:
    """Answers the question about trust, and records it."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.questions: list[str] = []

    def __call__(self, question: str) -> bool:
        self.questions.append(question)
        return self.answer


class TestTrust:
    PROJECT = 'tools = ["start_tools:plain"]\nsystem = "be brief"\n'

    @pytest.mark.parametrize("answer", [True, False])
    def test_user_is_asked_once(self, answer: bool, home: Path, capsys: Capture) -> None:
        (home / "toolglot.toml").write_text(self.PROJECT)
        confirm = Confirm(answer)
        for _ in range(2):
            cli_setup = prepare(Flags(), confirm=confirm)
            assert names(cli_setup.tools) == (["plain"] if answer else [])
            assert cli_setup.setup.settings.system == ("be brief" if answer else None)
        assert confirm.questions == ["Do you trust this directory?"]
        shown = "".join(capsys.readouterr().out.replace("↪", "").split())
        assert f"toolglot.tomlin{home}wantstoset" in shown
        assert 'tools=["start_tools:plain"]' in shown
        assert is_trusted(home) is ("start_tools" in sys.modules) is answer
        assert prepare(Flags(system="flag"), confirm=confirm).setup.settings.system == "flag"

    @pytest.mark.parametrize(
        ("project", "note"),
        [(PROJECT, "ignoring tools, system in"), ('model = "simulator:gemini"', "ignoring model in")],
    )
    def test_ignored_settings_are_reported_if_nobody_can_be_asked(
        self, project: str, note: str, home: Path, capsys: Capture
    ) -> None:
        (home / "toolglot.toml").write_text(project)
        assert prepare(Flags()).tools == []
        err = capsys.readouterr().err
        assert note in err
        assert "is not trusted (run `toolglot trust`)" in err
        assert err.count("\n") == 1

    def test_harmless_project_needs_no_trust(self, home: Path) -> None:
        (home / "toolglot.toml").write_text('generation.effort = "low"\n')
        assert (
            prepare(Flags(), confirm=lambda _: pytest.fail("asked")).setup.settings.generation.effort == "low"
        )

    @pytest.mark.parametrize("hostile", [r"\u001b[2K\rAll is well", r"a\nAll is well", r"\u202eb"])
    def test_question_cannot_be_manipulated(self, home: Path, hostile: str) -> None:
        """Names in a project file may come from an attacker."""
        (home / "toolglot.toml").write_text(f'[providers.anthropic.headers]\n"{hostile}" = "x"\n')
        confirm = Confirm(False)
        prepare(Flags(), confirm=confirm)
        assert confirm.questions[0].isprintable()


def test_log_file_gets_what_happens_without_keys(home: Path) -> None:
    os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test-0123456789"
    prepare(Flags(log_file=home / "log.jsonl", verbose=2))
    logging.getLogger("toolglot.test").debug("something happened with sk-ant-test-0123456789")
    log = (home / "log.jsonl").read_text()
    assert "something happened" in log
    assert "sk-ant-test-0123456789" not in log
    with pytest.raises(UsageError, match="cannot write the log"):
        prepare(Flags(log_file=home / "missing" / "log.jsonl"))
