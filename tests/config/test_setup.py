import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from homes import Home

from toolglot import Orchestrator, ToolConfig, ToolDefinition, ToolRegistry, tool
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup, find_unmatched, from_config
from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import AuthenticationFailed, ConnectFailed, UnknownName, UsageError
from toolglot.messages import user
from toolglot.request import Options, Request
from toolglot.user_dirs import state_directory


@tool
def git_log(n: int = 1) -> str:
    """Shows the log."""
    return "log"


@tool
def git_push() -> str:
    """Pushes."""
    return "pushed"


@tool
def read(path: str) -> str:
    """Reads a file."""
    return f"text of {path}"


TOOLS = [git_log, git_push, read]
NAMES = ["git_log", "git_push", "read"]


def settings(**document: Any) -> Settings:
    return msgspec.convert(document, Settings)


class Deaf:
    """Notes what is sent and answers nothing."""

    def __init__(self) -> None:
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        raise ConnectFailed("nobody listens")


def sent(setup: Setup, model: str) -> HttpRequest:
    """What goes out for a model."""
    engine = setup.engine(model)
    with pytest.raises(ConnectFailed):
        asyncio.run(engine.ask(Request(engine.model, [user("hello")])))
    assert isinstance(engine.transport, Deaf)
    return engine.transport.sent[-1]


class TestModels:
    @pytest.mark.parametrize(("name", "expected"), [
        (None, "anthropic:claude-x"),
        ("fast", "gemini:g"),
        ("faster", "gemini:g"),
        ("openai:gpt-5", "openai:gpt-5"),
        ("simulator", "simulator"),
        ("a:b", "simulator:ollama"),
    ])  # fmt: skip
    def test_a_name_is_a_model_or_an_alias_of_one(self, name: str | None, expected: str) -> None:
        aliases = {"main": "anthropic:claude-x", "fast": "gemini:g", "faster": "fast", "a:b": "simulator:ollama"}
        assert Setup(settings(model="main", aliases=aliases)).resolve_model(name) == expected

    def test_without_any_the_simulator_answers(self) -> None:
        assert Setup(Settings()).resolve_model(None) == "simulator"

    def test_aliases_that_go_round_in_circles_are_named(self) -> None:
        setup = Setup(settings(aliases={"a": "b", "b": "c", "c": "b"}))
        with pytest.raises(UsageError, match=r"^the alias 'b' refers to itself: a → b → c → b$"):
            setup.resolve_model("a")

    def test_what_is_neither_is_an_error_that_says_so(self) -> None:
        with pytest.raises(UnknownName, match=r"neither an alias nor PROVIDER:MODEL.*did you mean 'fast'"):
            Setup(settings(aliases={"fast": "simulator"})).resolve_model("fsat")
        with pytest.raises(UsageError, match=r"^'fast' is neither PROVIDER:MODEL, such as .*, nor an alias"):
            Setup(Settings()).resolve_model("fast")


class TestEngines:
    def test_a_provider_is_reached_as_it_is_configured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_KEY", "k-from-my-variable")
        section = {"base_url": "http://proxy/base", "key_env": "MY_KEY", "headers": {"X-Team": "a"}}
        setup = Setup(settings(providers={"anthropic": section}, retry={"max_retries": 0}), transport=Deaf())
        request = sent(setup, "anthropic:claude-x")
        assert request.url.startswith("http://proxy/base/")
        assert (request.headers["x-api-key"], request.headers["x-team"]) == ("k-from-my-variable", "a")

    def test_a_key_that_is_not_there_is_asked_for_by_its_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k-of-the-vendor")
        setup = Setup(settings(providers={"anthropic": {"key_env": "MY_KEY"}}), transport=Deaf())
        engine = setup.engine("anthropic:claude-x")
        with pytest.raises(AuthenticationFailed, match="MY_KEY"):
            asyncio.run(engine.ask(Request(engine.model, [user("hello")])))

    def test_url_parameters_fill_the_url(self) -> None:
        section = {"url_parameters": {"resource": "mine"}}
        engine = Setup(settings(providers={"azure": section})).engine("azure:gpt-5")
        assert "mine" in engine.profile.base_url

    def test_an_unknown_url_parameter_is_an_error(self) -> None:
        setup = Setup(settings(providers={"azure": {"url_parameters": {"key": "x"}}}))
        with pytest.raises(UnknownName, match=r"URL parameter of Azure.*'key'"):
            setup.engine("azure:gpt-5")

    @pytest.mark.parametrize(("model", "sections", "url", "key"), [
        ("openai:gpt-5", {"openai": ("http://a", "KEY_A")}, "http://a/", "a-key"),
        ("openai-responses:gpt-5", {"openai": ("http://a", "KEY_A")}, "http://a/", "a-key"),
        ("openai:gpt-5", {"openai": ("http://a", "KEY_A"), "openai-responses": (None, "KEY_B")}, "http://a/", "b-key"),
        ("openai:gpt-5", {"openai": ("http://a", "KEY_A"), "openai-chat": ("http://b", None)}, "http://a/", "a-key"),
        ("google:gemini-x", {"gemini": ("http://a", "KEY_A")}, "http://a/", "a-key"),
        ("gemini:gemini-x", {"google": ("http://a", "KEY_A")}, "http://a/", "a-key"),
        ("sglang:x", {"compatible": ("http://a", "KEY_A"), "sglang": ("http://b", "KEY_B")}, "http://b/", "b-key"),
        ("compatible:x", {"compatible": ("http://a", "KEY_A"), "sglang": ("http://b", "KEY_B")}, "http://a/", "a-key"),
        ("sglang:x", {"compatible": ("http://a", "KEY_A"), "sglang": ("http://b", None)}, "http://b/", None),
    ])  # fmt: skip
    def test_the_nearest_name_counts_and_no_key_goes_to_another_address(
        self,
        monkeypatch: pytest.MonkeyPatch,
        model: str,
        sections: dict[str, tuple[str | None, str | None]],
        url: str,
        key: str | None,
    ) -> None:
        monkeypatch.setenv("KEY_A", "a-key")
        monkeypatch.setenv("KEY_B", "b-key")
        monkeypatch.delenv("TOOLGLOT_API_KEY", raising=False)
        providers = {name: {"base_url": base, "key_env": variable} for name, (base, variable) in sections.items()}
        request = sent(Setup(settings(providers=providers, retry={"max_retries": 0}), transport=Deaf()), model)
        assert request.url.startswith(url)
        assert [one for one in ("a-key", "b-key") if one in str(request.headers)] == ([key] if key else [])

    def test_all_engines_share_one_transport_that_is_made_when_it_is_needed(self) -> None:
        setup = Setup(settings(timeouts={"connect": 3}))
        simulated = setup.engine("simulator")
        assert isinstance(simulated.transport, SimulatedTransport)
        one, other = setup.engine("anthropic:x"), setup.engine("gemini:y")
        assert isinstance(one.transport, HttpTransport)
        assert one.transport is other.transport
        assert one is setup.engine("anthropic:x")
        asyncio.run(setup.close())

    def test_what_the_caller_gives_goes_first(self) -> None:
        setup = Setup(settings(providers={"anthropic": {"base_url": "http://a"}}))
        assert setup.engine("anthropic:x", base_url="http://b").profile.base_url == "http://b"
        assert setup.engine("anthropic:x").profile.base_url == "http://a"

    def test_the_simulator_has_no_address(self) -> None:
        with pytest.raises(UsageError, match="the simulator has no address and no key"):
            Setup(settings(providers={"simulator": {"base_url": "http://a"}})).engine("simulator")


class TestRules:
    def test_a_policy_is_a_config_of_tools(self) -> None:
        policy = {
            "max_turns": 3,
            "timeout": "none",
            "run_timeout": 9,
            "max_parallel": 2,
            "max_uses": {"read": 1},
            "max_result": 500,
            "max_tokens": 1000,
            "max_cost": 0.5,
            "repeats": 0,
            "on_error": "abort",
            "ask": ["write"],
        }
        found = Setup(settings(policy=policy, retry={"max_retries": 7})).tool_config(None, NAMES)
        assert (found.max_iterations, found.timeout, found.run_timeout, found.max_parallel) == (3, None, 9, 2)
        assert (found.max_uses, found.max_result, found.max_tokens, found.max_cost) == ({"read": 1}, 500, 1000, 0.5)
        assert (found.max_repeats, found.on_error, found.approval_effects) == (0, "abort", frozenset({"write"}))
        assert (found.retry.max_retries, found.allowed_tools, found.parallel) == (7, None, None)

    def test_the_default_settings_are_the_default_config(self) -> None:
        assert Setup(Settings()).tool_config(None, NAMES) == ToolConfig()

    @pytest.mark.parametrize(("policy", "provider", "expected"), [
        ({}, {}, None),
        ({"allow": ["git_*"]}, {}, {"git_log", "git_push"}),
        ({"deny": ["git_p*"]}, {}, {"git_log", "read"}),
        ({"allow": ["git_*"], "deny": ["git_push"]}, {}, {"git_log"}),
        ({"allow": []}, {}, set[str]()),
        ({"allow": ["READ"]}, {}, set[str]()),
        ({}, {"deny": ["*"]}, set[str]()),
        ({"allow": ["git_*"]}, {"allow": ["*_log", "read"]}, {"git_log"}),
        ({"deny": ["read"]}, {"allow": ["read", "git_log"]}, {"git_log"}),
    ])  # fmt: skip
    def test_a_tool_has_to_pass_all_filters(
        self, policy: dict[str, Any], provider: dict[str, Any], expected: set[str] | None
    ) -> None:
        setup = Setup(settings(policy=policy, providers={"gemini": {"tools": provider, "parallel": False}}))
        found = setup.tool_config("gemini:x", NAMES)
        assert (found.allowed_tools, found.parallel) == (expected, False)

    def test_what_is_said_of_a_provider_counts_for_no_other(self) -> None:
        setup = Setup(settings(providers={"gemini": {"tools": {"deny": ["*"]}, "generation": {"effort": "high"}}}))
        assert setup.tool_config("anthropic:x", NAMES).allowed_tools is None
        assert setup.generation_options("anthropic:x") == Options(cache=True)

    def test_options_of_a_provider_go_before_those_of_all(self) -> None:
        providers = {
            "openai": {"generation": {"effort": "low", "top_p": 0.5}},
            "openai-responses": {"generation": {"effort": "high"}},
        }
        setup = Setup(settings(generation={"max_tokens": 9, "top_p": 1}, providers=providers))
        assert setup.generation_options("openai:gpt-5") == Options(max_tokens=9, top_p=0.5, effort="high", cache=True)

    def test_a_pattern_that_fits_nothing_is_found(self) -> None:
        assert find_unmatched(["git_*", "shell", "rea?"], NAMES) == ("shell",)
        assert find_unmatched(["Bash", "Bassh", "run_shell_*", "web.run"], ["shell", "web_open"]) == ("Bassh",)
        assert find_unmatched([], NAMES) == ()

    @pytest.mark.parametrize("name", ["shell", "Bash", "run_shell_command", "exec_command", "Ba*"])
    def test_a_built_in_tool_is_denied_by_every_name_that_a_model_has_for_it(self, name: str) -> None:
        found = Setup(settings(policy={"deny": [name]})).tool_config(None, ["read", "shell", "edit"])
        assert found.allowed_tools == {"read", "edit"}
        only = Setup(settings(policy={"allow": [name]})).tool_config(None, ["read", "shell", "edit"])
        assert only.allowed_tools == {"shell"}

    def test_beside_a_tool_of_the_name_both_are_denied_and_one_is_allowed(self) -> None:
        found = Setup(settings(policy={"deny": ["Bash"]})).tool_config(None, ["Bash", "shell", "read"])
        assert found.allowed_tools == {"read"}
        only = Setup(settings(policy={"allow": ["Bash"]})).tool_config(None, ["Bash", "shell", "read"])
        assert only.allowed_tools == {"Bash"}

    def test_uses_are_counted_by_every_name_too(self) -> None:
        found = Setup(settings(policy={"max_uses": {"Bash": 2, "read": 1, "own": 5}})).tool_config(
            None, ["read", "shell", "own"]
        )
        assert found.max_uses == {"shell": 2, "read": 1, "own": 5}


class TestAgents:
    def test_an_agent_is_as_it_is_configured(self) -> None:
        agent = Setup(settings(system="Be brief.", policy={"deny": ["git_push"]}, context={"when_full": "trim"})).create_agent(
            tools=TOOLS
        )
        assert agent.system == "Be brief."
        assert agent.context.when_full == "trim"
        assert agent.config.allowed_tools == {"git_log", "read"}
        outcomes = agent.run_sync('call read {"path": "a"}\ncall git_push {}').outcomes
        assert [one.result.is_error for one in outcomes] == [False, True]

    def test_what_its_maker_gives_goes_first_and_stays(self) -> None:
        config = ToolConfig(max_iterations=1)
        agent = Setup(settings(system="Be brief.")).create_agent(tools=ToolRegistry(TOOLS), system="Be long.", config=config)
        agent.switch("simulator:gemini")
        assert (agent.system, agent.config, len(agent.registry)) == ("Be long.", config, 3)

    def test_hosted_tools_are_filtered_too(self) -> None:
        setup = Setup(settings(policy={"deny": ["web_*"]}))
        hosted = ToolDefinition("web_fetch", kind="hosted", wire="anthropic-messages")
        agent = setup.create_agent(tools=[read, hosted], hosted=["web_search", "code_execution"])
        assert {one.name for one in agent.view().tools()} & {"web_search", "web_fetch"} == set()

    @pytest.mark.parametrize("through_setup", [True, False])
    def test_a_switch_takes_the_rules_of_the_other_provider(self, through_setup: bool) -> None:
        providers = {"gemini": {"tools": {"allow": ["read"]}, "parallel": False, "generation": {"top_p": 0.5}}}
        setup = Setup(settings(providers=providers, aliases={"g": "gemini:gemini-3-pro-preview"}))
        agent = setup.create_agent("simulator", tools=TOOLS)
        setup.switch(agent, "g") if through_setup else agent.switch("g")
        assert agent.model == "gemini:gemini-3-pro-preview"
        assert (agent.config.allowed_tools, agent.config.parallel, agent.options.top_p) == ({"read"}, False, 0.5)
        agent.switch("simulator")
        assert (agent.config.allowed_tools, agent.options) == (None, Options(cache=True))

    def test_a_switch_that_fails_changes_nothing(self) -> None:
        setup = Setup(settings(providers={"gemini": {"tools": {"deny": ["*"]}}}))
        agent = setup.create_agent(tools=TOOLS)
        with pytest.raises(UnknownName):
            agent.switch("gemni:x")
        assert (agent.model.split(":")[0], agent.config.allowed_tools) == ("simulator", None)

    def test_a_fallback_counts_under_the_rules_of_its_own_provider(self) -> None:
        providers = {"anthropic": {"base_url": "http://a"}, "simulator": {"tools": {"allow": ["read"]}}}
        chosen = settings(
            model="anthropic:claude-x",
            fallbacks=["backup"],
            aliases={"backup": "simulator:gemini"},
            providers=providers,
            retry={"max_retries": 0},
        )
        setup = Setup(chosen)
        agent = setup.create_agent(tools=TOOLS, transport=Deaf(), key="k")
        assert agent.config.allowed_tools is None
        result = agent.run_sync('call git_push {}\ncall read {"path": "a"}')
        assert agent.model.startswith("simulator:gemini/")
        assert [one.result.error_kind for one in result.outcomes] == ["not_allowed", None]

    def test_a_saved_conversation_goes_on_in_another_process(self) -> None:
        setup = Setup(settings(aliases={"m": "simulator:ollama"}))
        agent = setup.create_agent("m", tools=TOOLS)
        agent.run_sync("hello")
        other = setup.create_agent(agent.model, tools=TOOLS)
        other.restore(agent.save())
        assert len(other.conversation) == len(agent.conversation)

    def test_something_that_is_nobodys_option_is_an_error(self) -> None:
        with pytest.raises(UnknownName, match="zzz"):
            Setup(Settings()).create_agent("anthropic:x", zzz=1)


class TestAudit:
    def test_by_default_calls_are_written_down_in_the_state_folder(self) -> None:
        agent = Setup(Settings()).create_agent(tools=TOOLS)
        file = state_directory() / "audit.jsonl"
        assert not file.exists()
        agent.run_sync('call read {"path": "a"}')
        assert [json.loads(line)["tool"] for line in file.read_text().splitlines()] == ["read"]
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    def test_it_may_be_another_file_or_none(self, tmp_path: Path) -> None:
        Setup(settings(audit=str(tmp_path / "a.jsonl"))).create_agent(tools=TOOLS).run_sync('call read {"path": "a"}')
        assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1
        Setup(settings(audit=False)).create_agent(tools=TOOLS).run_sync('call read {"path": "a"}')
        assert not state_directory().exists()

    def test_a_file_that_cannot_be_written_is_an_error_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="audit log"):
            Setup(settings(audit=str(tmp_path / "no" / "a.jsonl"))).create_agent()


class TestFromConfig:
    def test_an_agent_comes_out_of_files_and_flags(self, home: Home) -> None:
        home.user_file.write_text('[aliases]\nfast = "simulator:gemini"\n')
        home.project_file.write_text('model = "fast"\n[policy]\ndeny = ["git_*"]\n')
        agent = from_config(tools=TOOLS, directory=home.project, flags={"system": "Be brief."})
        assert isinstance(agent, Orchestrator)
        assert agent.model.startswith("simulator:gemini/")
        assert (agent.system, agent.config.allowed_tools) == ("Be brief.", {"read"})

    def test_tools_are_loaded_from_the_folder_of_a_trusted_project(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        from toolglot.config.trust import trust_directory

        (home.project / "tools_of_project.py").write_text('def wave() -> str:\n    """Waves."""\n    return "hi"\n')
        home.project_file.write_text('tools = ["tools_of_project:wave"]\n')
        below = home.project / "below"
        below.mkdir()
        assert len(from_config(directory=below).registry) == 0
        assert "tools_of_project" not in sys.modules
        trust_directory(home.project)
        agent = from_config(directory=below, tools=[read])
        monkeypatch.delitem(sys.modules, "tools_of_project")
        assert [one.name for one in agent.registry] == ["wave", "read"]
        assert str(home.project) not in sys.path

    def test_tools_that_cannot_be_loaded_are_named(self, home: Home) -> None:
        home.user_file.write_text('tools = ["nowhere:x"]')
        with pytest.raises(UsageError, match="cannot load 'nowhere:x'"):
            from_config(directory=home.project)
