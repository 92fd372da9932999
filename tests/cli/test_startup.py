"""What every conversation begins with: configuration, trust, keys out of sight, tools, a model."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolglot.cli.startup import DEFAULT_MODELS, Flags, prepare, require_key
from toolglot.config.trust import is_trusted
from toolglot.engine.auth import describe_key_origin
from toolglot.engine.factory import create_engine
from toolglot.errors import UsageError
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
def home(isolated_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    work = isolated_home / "work"
    work.mkdir()
    (isolated_home / "user").mkdir()
    (work / "start_tools.py").write_text(TOOLS)
    monkeypatch.chdir(work)
    logger = logging.getLogger("toolglot")
    level, handlers = logger.level, list(logger.handlers)
    yield work
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)
    sys.modules.pop("start_tools", None)


def user_file(text: str) -> None:
    Path(os.environ["TOOLGLOT_CONFIG"]).write_text(text)


def names(tools: list[object]) -> list[str]:
    return [one.name if isinstance(one, Tool) else getattr(one, "__name__", "") for one in tools]


class TestPrecedence:
    def test_flags_go_first(self) -> None:
        user_file('model = "simulator:gemini"\nsystem = "user"\n[policy]\nmax_turns = 3\nallow = ["read_*"]\n')
        os.environ["TOOLGLOT_MODEL"] = "simulator:ollama"
        started = prepare(
            Flags(model="simulator:openai", system="flag", max_turns=7, allow=("write_*",), tools=("start_tools:ALL",))
        )
        settings = started.setup.settings
        assert started.model == "simulator:openai"
        assert (settings.system, settings.policy.max_turns, settings.policy.allow) == ("flag", 7, ("write_*",))

    def test_then_the_environment_then_the_user_s_file(self) -> None:
        user_file('model = "simulator:gemini"\nsystem = "user"\n')
        os.environ["TOOLGLOT_MODEL"] = "simulator:ollama"
        started = prepare(Flags())
        assert started.model == "simulator:ollama"
        assert started.setup.settings.system == "user"

    def test_an_empty_model_is_none(self) -> None:
        user_file('model = "simulator:gemini"\n')
        assert prepare(Flags(model="")).model == "simulator:gemini"

    def test_an_alias_is_looked_up(self) -> None:
        user_file('[aliases]\ng = "simulator:gemini"\n')
        assert prepare(Flags(model="g")).model == "simulator:gemini"

    def test_what_is_denied_adds_up(self) -> None:
        user_file('[policy]\ndeny = ["write_*"]\n')
        started = prepare(Flags(deny=("pl*",), tools=("start_tools:ALL",)))
        assert started.setup.settings.policy.deny == ("write_*", "pl*")
        agent = started.setup.create_agent(started.model, tools=started.tools)
        assert agent.config.allowed_tools == {"read_file"}

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
    def test_patterns_choose_the_tools(self, allow: tuple[str, ...], deny: tuple[str, ...], offered: set[str]) -> None:
        started = prepare(Flags(allow=allow, deny=deny, tools=("start_tools:ALL",)))
        agent = started.setup.create_agent(started.model, tools=started.tools)
        assert {one.name for one in agent.view().tools()} == offered


class TestPatterns:
    def test_an_unknown_name_names_the_nearest(self) -> None:
        with pytest.raises(UsageError, match=r"unknown tool in --allow 'read_fil'; did you mean 'read_file'"):
            prepare(Flags(allow=("read_fil",), tools=("start_tools:ALL",)))

    def test_a_pattern_of_a_file_that_fits_nothing_is_no_error(self) -> None:
        user_file('[policy]\nallow = ["git_*"]\n')
        prepare(Flags(tools=("start_tools:ALL",)))

    def test_where_there_are_no_tools_it_says_so(self) -> None:
        with pytest.raises(UsageError) as caught:
            prepare(Flags(allow=("read_file",)))
        assert "did you mean ?" not in str(caught.value)


class TestTools:
    def test_configured_ones_and_those_of_flags_are_loaded(self) -> None:
        user_file('tools = ["start_tools:read_file"]\n')
        assert names(prepare(Flags(tools=("start_tools:plain",))).tools) == ["read_file", "plain"]

    @pytest.mark.parametrize("name", ["nowhere:x", "start_tools:missing", "start_tools:ODD", "", ":", "start_tools"])
    def test_what_cannot_be_loaded_is_said(self, name: str) -> None:
        with pytest.raises(UsageError):
            prepare(Flags(tools=(name,)))

    def test_samples_are_there_on_the_simulator_only(self) -> None:
        assert "get_weather" in names(prepare(Flags(), use_demo_tools=True).tools)
        assert "get_weather" in names(prepare(Flags(model="simulator:gemini"), use_demo_tools=True).tools)
        assert prepare(Flags(model="anthropic:claude-sonnet-4-5", builtin=False), use_demo_tools=True).tools == []
        assert "get_weather" not in names(prepare(Flags(model="anthropic:claude-sonnet-4-5"), use_demo_tools=True).tools)

    def test_samples_are_there_only_where_asked_for_and_where_there_is_nothing_else(self) -> None:
        assert prepare(Flags()).tools == []
        assert names(prepare(Flags(tools=("start_tools:plain",)), use_demo_tools=True).tools) == ["plain"]


class TestKeys:
    def test_they_are_out_of_sight_before_a_tool_s_code_is_loaded(self) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        os.environ["MY_OWN_KEY"] = "own"
        user_file('[providers.openai]\nkey_env = "MY_OWN_KEY"\n')
        prepare(Flags(tools=("start_tools:ALL",)))
        assert sys.modules["start_tools"].SEEN == {}
        assert "ANTHROPIC_API_KEY" not in os.environ

    def test_and_are_used_all_the_same(self) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        assert prepare(Flags()).model == DEFAULT_MODELS[0]
        assert describe_key_origin(resolve_profile("anthropic", "x")) is not None

    def test_one_that_tools_may_see_stays(self) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        os.environ["OPENAI_API_KEY"] = "sk-test"
        user_file('[policy]\nkeep_env = ["ANTHROPIC_API_KEY"]\n')
        prepare(Flags())
        assert os.environ["ANTHROPIC_API_KEY"] == "sk-ant-test"
        assert "OPENAI_API_KEY" not in os.environ

    def test_a_project_that_is_not_trusted_keeps_none(self, home: Path) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        (home / "toolglot.toml").write_text('[policy]\nkeep_env = ["ANTHROPIC_API_KEY"]\n')
        prepare(Flags())
        assert "ANTHROPIC_API_KEY" not in os.environ

    def test_a_missing_one_is_named_with_what_to_do(self) -> None:
        with pytest.raises(UsageError, match=r"ANTHROPIC_API_KEY.*toolglot login anthropic"):
            require_key(create_engine("anthropic:claude-sonnet-4-5"))

    @pytest.mark.parametrize("model", ["simulator", "simulator:openai", "ollama:llama3"])
    def test_some_need_none(self, model: str) -> None:
        require_key(create_engine(model))

    def test_a_given_one_is_enough(self) -> None:
        require_key(create_engine("anthropic:claude-sonnet-4-5", key="sk-ant-test"))


class TestChosenModel:
    def test_without_a_key_the_simulator_answers_and_says_why(self) -> None:
        started = prepare(Flags())
        assert started.model == "simulator"
        assert "TOOLGLOT_MODEL" in started.model_reason

    @pytest.mark.parametrize("place", range(len(DEFAULT_MODELS)))
    def test_the_first_provider_with_a_key_answers(self, place: int) -> None:
        for model in DEFAULT_MODELS[place:]:
            os.environ[resolve_profile(*model.partition(":")[::2]).key_env[0]] = "test-key"
        started = prepare(Flags())
        assert started.model == DEFAULT_MODELS[place]
        assert "there is a key" in started.model_reason
        assert "test-key" not in started.model_reason

    def test_a_named_one_needs_no_reason(self) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test"
        started = prepare(Flags(model="simulator:gemini"))
        assert (started.model, started.model_reason) == ("simulator:gemini", "")

    def test_one_that_is_neither_model_nor_alias_is_said(self) -> None:
        with pytest.raises(UsageError, match="neither PROVIDER:MODEL"):
            prepare(Flags(model="claude"))


class TestFacade:
    @pytest.mark.parametrize(
        ("flags", "why"),
        [
            ({"facade": "codex"}, "the simulator has no built-in tools without --builtin"),
            ({"facade": "codex", "builtin": False}, "the built-in tools are disabled"),
            ({"facade": "codex", "builtin": True}, ""),
            ({}, ""),
        ],
    )
    def test_one_that_can_show_nothing_is_said(
        self, flags: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with prepare(Flags(model="simulator", **flags)):
            assert capsys.readouterr().err == (f"toolglot: --facade codex has no effect: {why}\n" if why else "")


class TestTrust:
    PROJECT = 'tools = ["start_tools:plain"]\nsystem = "be brief"\n'

    def test_the_user_is_asked_once_and_yes_counts(self, home: Path) -> None:
        (home / "toolglot.toml").write_text(self.PROJECT)
        asked: list[str] = []

        def ask(question: str) -> bool:
            asked.append(question)
            return True

        for _ in range(2):
            assert names(prepare(Flags(), confirm=ask).tools) == ["plain"]
        assert len(asked) == 1
        assert str(home) in asked[0]
        assert "tools" in asked[0]
        assert is_trusted(home)

    def test_no_counts_too_and_is_remembered(self, home: Path) -> None:
        (home / "toolglot.toml").write_text(self.PROJECT)
        asked: list[str] = []

        def ask(question: str) -> bool:
            asked.append(question)
            return False

        for _ in range(2):
            started = prepare(Flags(), confirm=ask)
            assert started.tools == []
            assert started.setup.settings.system == "be brief"
        assert len(asked) == 1
        assert "start_tools" not in sys.modules

    def test_where_nobody_can_be_asked_it_is_said(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (home / "toolglot.toml").write_text(self.PROJECT)
        assert prepare(Flags()).tools == []
        said = capsys.readouterr().err
        assert "is not trusted" in said
        assert "tools" in said
        assert "toolglot trust" in said
        assert said.count("\n") == 1

    @pytest.mark.parametrize(
        ("project", "said"),
        [
            ('tools = ["start_tools:plain"]\n', "ignoring tools in"),
            ('facade = "mine.toml"\ntools = ["start_tools:plain"]\n', "ignoring facade, tools in"),
        ],
    )
    def test_one_setting_does_not_count_and_several_do_not(
        self, project: str, said: str, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (home / "toolglot.toml").write_text(project)
        prepare(Flags())
        assert said in capsys.readouterr().err

    def test_a_project_that_asks_for_nothing_special_is_not_asked_about(self, home: Path) -> None:
        (home / "toolglot.toml").write_text('system = "be brief"\n')
        assert prepare(Flags(), confirm=lambda _: pytest.fail("asked")).setup.settings.system == "be brief"

    def test_flags_count_after_the_question_too(self, home: Path) -> None:
        (home / "toolglot.toml").write_text(self.PROJECT)
        assert prepare(Flags(system="flag"), confirm=lambda _: True).setup.settings.system == "flag"

    @pytest.mark.parametrize("hostile", [r"\u001b[2K\rAll is well", r"a\nAll is well", r"\u202eb"])
    def test_the_question_cannot_be_drawn_over(self, home: Path, hostile: str) -> None:
        """Names in a project's file are somebody else's words."""
        (home / "toolglot.toml").write_text(f'[providers.anthropic.headers]\n"{hostile}" = "x"\n')
        asked: list[str] = []

        def ask(question: str) -> bool:
            asked.append(question)
            return False

        prepare(Flags(), confirm=ask)
        assert asked
        assert asked[0].isprintable()


class TestLog:
    def test_a_file_gets_what_happens(self, home: Path) -> None:
        prepare(Flags(log_file=home / "log.jsonl", verbose=2))
        logging.getLogger("toolglot.test").debug("something happened")
        assert "something happened" in (home / "log.jsonl").read_text()

    def test_keys_are_not_in_it(self, home: Path) -> None:
        os.environ["ANTHROPIC_API_KEY"] = "sk-ant-test-0123456789"
        prepare(Flags(log_file=home / "log.jsonl", verbose=2))
        logging.getLogger("toolglot.test").debug("the key is sk-ant-test-0123456789")
        assert "sk-ant-test-0123456789" not in (home / "log.jsonl").read_text()

    def test_one_that_cannot_be_written_is_said(self, home: Path) -> None:
        with pytest.raises(UsageError, match="cannot write the log"):
            prepare(Flags(log_file=home / "no folder" / "log.jsonl"))
