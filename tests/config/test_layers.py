from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from homes import Home

from toolglot.config.layers import Configuration, find_project_file, read_configuration, setting_variables
from toolglot.config.setting_schema import setting_fields
from toolglot.config.settings import Settings
from toolglot.errors import UsageError


def origins(configuration: Configuration) -> dict[str, str]:
    return {value.key: value.origin for value in configuration.values}


def values(configuration: Configuration) -> dict[str, Any]:
    return {value.key: value.value for value in configuration.values}


class TestLayers:
    def test_without_any_file_everything_is_the_default(self) -> None:
        configuration = read_configuration(environ={"TOOLGLOT_CONFIG": "/nowhere/config.toml"})
        assert configuration.settings == Settings()
        assert set(origins(configuration).values()) == {"default"}
        assert configuration.project is None
        assert not configuration.trusted

    def test_every_setting_has_a_value(self, home: Home) -> None:
        configuration = home.read(
            '[providers.gemini]\nparallel = false\n[mcp.servers.x]\nurl = "http://x"\n[aliases]\nfast = '
            '"simulator"\n'
        )
        keys = list(origins(configuration))
        assert len(keys) == len(set(keys))
        for leaf in setting_fields():
            shown = (
                leaf.key_text.replace("providers.*", "providers.gemini")
                .replace("servers.*", "servers.x")
                .removesuffix(".*")
            )
            assert shown in keys or f"{shown}.fast" in keys

    def test_each_layer_goes_over_the_one_below(self, home: Home) -> None:
        layers: dict[str, Any] = {
            "user": "[limits]\nmax_iterations = 20\n",
            "project": "[limits]\nmax_iterations = 10\n",
            "environ": {"TOOLGLOT_LIMITS_MAX_ITERATIONS": "30"},
            "flags": {"limits.max_iterations": 40},
        }
        expected = {
            "default": (25, "default"),
            "user": (20, f"user file {home.user_file}"),
            "project": (10, f"project file {home.project_file}"),
            "environ": (30, "variable TOOLGLOT_LIMITS_MAX_ITERATIONS"),
            "flags": (40, "flag --max-iterations"),
        }
        sources: dict[str, Any] = {}
        for layer, (turns, origin) in expected.items():
            if layer in layers:
                sources[layer] = layers[layer]
            configuration = home.read(**sources)
            assert (
                configuration.settings.limits.max_iterations,
                origins(configuration)["limits.max_iterations"],
            ) == (
                turns,
                origin,
            )

    def test_tables_with_free_names_are_merged_entry_by_entry(self, home: Home) -> None:
        configuration = home.read(
            '[aliases]\na = "simulator:gemini"\nb = "simulator:ollama"\n[policy.max_uses]\nx = 3\n',
            '[aliases]\nb = "simulator:anthropic"\n"c.d" = "simulator"\n[policy.max_uses]\ny = 1\n',
            trusted=True,
        )
        assert configuration.settings.aliases == {
            "a": "simulator:gemini",
            "b": "simulator:anthropic",
            "c.d": "simulator",
        }
        assert configuration.settings.policy.max_uses == {"x": 3, "y": 1}
        user, project = f"user file {home.user_file}", f"project file {home.project_file}"
        expected = {
            "aliases.a": user,
            "aliases.b": project,
            'aliases."c.d"': project,
            "policy.max_uses.x": user,
        }
        assert origins(configuration).items() >= expected.items()

    def test_sections_of_a_provider_are_merged_too(self, home: Home) -> None:
        configuration = home.read(
            '[providers."llama.cpp"]\nstrict = true\n', "[providers.'llama.cpp'.generation]\ntop_p = 1\n"
        )
        section = configuration.settings.providers["llama.cpp"]
        assert (section.strict, section.generation.top_p) == (True, 1.0)
        assert (
            origins(configuration)['providers."llama.cpp".generation.top_p']
            == f"project file {home.project_file}"
        )

    def test_a_flag_that_is_none_is_not_set(self, home: Home) -> None:
        configuration = home.read('model = "simulator"', flags={"model": None, "policy.allow": ["a"]})
        assert (configuration.settings.model, configuration.settings.policy.allow) == ("simulator", ("a",))

    @pytest.mark.parametrize(("key", "value", "expected"), [
        ('providers."llama.cpp".base_url', "http://x", "http://x"),
        ('aliases."gpt.five"', "openai:gpt-5", "openai:gpt-5"),
        ("policy.timeout", "none", "none"),
        ("timeouts.connect", "none", None),
        ("limits.max_iterations", "7", 7),
        ("policy.deny", "a, b", ("a", "b")),
        ("audit", Path("/x/audit"), "/x/audit"),
        ("audit", False, False),
    ])  # fmt: skip
    def test_flags_are_dotted_keys(self, home: Home, key: str, value: Any, expected: Any) -> None:
        assert expected in [
            setting.value
            for setting in home.read(flags={key: value}).values
            if setting.origin.startswith("flag --")
        ]

    def test_flags_are_named_as_on_the_command_line(self, home: Home) -> None:
        flags = {"limits.max_iterations": 3, "log.file": "x", "providers.gemini.base_url": "http://x"}
        sources = origins(home.read(flags=flags))
        assert [sources[key] for key in flags] == [
            "flag --max-iterations",
            "flag --log-file",
            "flag --base-url",
        ]

    def test_paths_are_relative_to_the_file_that_names_them(self, home: Home) -> None:
        configuration = home.read('audit = "a.jsonl"', '[log]\nfile = "~/log.jsonl"', trusted=True)
        assert configuration.settings.audit == str(home.user_file.parent / "a.jsonl")
        assert configuration.settings.log.file == str(home.directory / "log.jsonl")

    def test_none_is_no_limit(self, home: Home) -> None:
        settings = home.read(
            '[policy]\ntimeout = "none"\n[timeouts]\nidle = "none"\n[context]\nbudget = "none"\n'
        ).settings
        assert (settings.policy.timeout, settings.timeouts.idle, settings.context.budget) == (
            "none",
            None,
            None,
        )
        # this one is a word
        assert home.read('[generation]\neffort = "none"\n').settings.generation.effort == "none"

    def test_a_byte_order_mark_is_ignored(self, home: Home) -> None:
        assert home.read('\ufeffmodel = "simulator"\n').settings.model == "simulator"

    def test_the_user_file_is_no_project_file(self, home: Home) -> None:
        home.project_file.write_text("audit = false")
        configuration = read_configuration(
            directory=home.project, environ={"TOOLGLOT_CONFIG": str(home.project_file)}
        )
        assert (configuration.settings.audit, configuration.project, configuration.withheld) == (
            False,
            None,
            (),
        )


class TestProjects:
    def test_the_nearest_file_counts(self, home: Home) -> None:
        home.project_file.touch()
        deep = home.project / "a" / "b"
        deep.mkdir(parents=True)
        assert find_project_file(deep) == home.project_file
        (deep / "toolglot.toml").touch()
        assert find_project_file(deep) == deep / "toolglot.toml"

    @pytest.mark.parametrize("create", [Path.mkdir, Path.touch], ids=["directory", "file"])
    def test_the_search_ends_at_the_root_of_a_repository(
        self, home: Home, create: Callable[[Path], None]
    ) -> None:
        home.project_file.touch()
        deep = home.project / "a"
        deep.mkdir()
        create(home.project / ".git")
        assert find_project_file(deep) == home.project_file
        create(deep / ".git")
        assert find_project_file(deep) is None

    def test_the_search_ends_at_the_home_directory(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        (home.directory / "toolglot.toml").touch()
        assert find_project_file(home.project) == home.directory / "toolglot.toml"
        monkeypatch.setenv("HOME", str(home.project))
        assert find_project_file(home.project) is None

    def test_the_search_ends_before_a_world_writable_directory(self, home: Home) -> None:
        home.project_file.touch()
        deep = home.project / "a"
        deep.mkdir()
        home.project.chmod(0o1777)
        assert find_project_file(deep) is None
        assert find_project_file(home.project) == home.project_file

    def test_a_deleted_directory_has_no_project(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = home.directory / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert find_project_file() is None


class TestErrors:
    @pytest.mark.parametrize(("text", "line", "expected"), [
        ("model = ", "line 1, column 9", "invalid TOML: Invalid value"),
        ('a = 1\nmodel "x"', "line 2, column 7", "invalid TOML: Expected '=' after a key in a key/value "
                                                 "pair"),
        ('system = """\nnever', "line 2, column 6", "invalid TOML: "),
        ("[policy]\n[policy]\n", "line 2, column 8", "invalid TOML: "),
        ("modle = 'x'", "line 1", "there is no setting 'modle'; did you mean 'model'?"),
        ("\n[limits]\nmax_iteration = 3", "line 3", "no setting 'limits.max_iteration'; did you mean "
                                                    "'limits.max_iterations'"),
        ("max_iterations = 3", "line 1", "there is no setting 'max_iterations'; did you mean "
                                         "'limits.max_iterations'?"),
        ("[polic]\nmax_iterations = 3", "line 1", "there is no setting 'polic'; did you mean 'policy'?"),
        ("[log]\nzzz = 3", "line 2", "there is no setting 'log.zzz'; there are file, level"),
        ('["*"]\nx = 3', "line 1", "there is no setting '\"*\"'; there are aliases"),
        ("[providers.antropic]", "line 1", "there is no provider 'antropic'; did you mean "
                                           "'providers.anthropic'?"),
        ("[providers.llama.cpp]", "line 1", 'providers."llama.cpp"'),
        ("[providers.zzzzzz]", "line 1", "there is no provider 'zzzzzz'; see docs/providers.md"),
        ("providers.gemini.parralel = true", "line 1", "did you mean 'providers.gemini.parallel'?"),
        ("[providers.gemini]\napi_key = 'k'", "line 2", "there is no setting 'providers.gemini.api_key'; "),
        ("policy = 3", "line 1", "policy must be a table"),
        ("policy.max_iterations = 3", "line 1", "no setting 'policy.max_iterations'; it is now "
                                                "'limits.max_iterations'"),
        ("[policy]\nmax_tokens = 3", "line 2", "no setting 'policy.max_tokens'; it is now "
                                               "'limits.max_total_tokens'"),
        ("[policy.max_per_minute]\nx = 3", "line 1", "no setting 'policy.max_per_minute'; it is now "
                                                     "'policy.rates'"),
        ("[policy.max_tokens_per_minute]\nx = 3", "line 1",
            "no setting 'policy.max_tokens_per_minute'; it is now 'limits.request_rates'"),
        ("[[policy]]\ntimeout = 3", "line 1", "policy must be a table"),
        ("providers.gemini = 'x'", "line 1", "providers.gemini must be a table"),
        ("model = 3", "line 1", "model must be a string that is not empty, not 3"),
        ("model = ''", "line 1", "model must be a string that is not empty, not ''"),
        ("tools = 'a:b'", "line 1", "tools must be a list of strings, not 'a:b'"),
        ("tools = ['']", "line 1", "tools must be a list of strings, not ['']"),
        ("audit = 1", "line 1", "audit must be true or false or a string that is not empty, not 1"),
        ("system = 2020-01-01", "line 1", "system must be a string, not 2020-01-01"),
        ("[policy]\nask = ['delete']", "line 2",
            "policy.ask must be a list of 'read', 'write', 'execute' or 'network', not ['delete']"),
        ("limits.max_iterations = -1", "line 1", "limits.max_iterations must be an integer of at least 0, "
                                                 "not -1"),
        ("limits.max_iterations = true", "line 1", "limits.max_iterations must be an integer of at least 0, "
                                                   "not true"),
        ("limits.max_iterations = 1.5", "line 1", "limits.max_iterations must be an integer of at least 0, "
                                                  "not 1.5"),
        ("[policy]\n'max_parallel' = -1", "line 2", "policy.max_parallel must be an integer of at least 1, "
                                                    "not -1"),
        ("policy = { timeout = 0 }", "line 1", "policy.timeout must be a number above 0 or 'none', not 0"),
        ("policy.timeout = nan", "line 1", "policy.timeout must be a number above 0 or 'none', not nan"),
        ("policy.timeout = inf", "line 1", "policy.timeout must be a number above 0 or 'none', not inf"),
        (f"policy.timeout = 1{'0' * 400}", "line 1",
            f"policy.timeout must be a number above 0 or 'none', not 1{'0' * 39}…"),
        ("limits.max_iterations = 9223372036854775808", "line 1", "of at least 0, not 9223372036854775808"),
        ("limits.run_timeout = -1", "line 1", "limits.run_timeout must be a number of at least 0 or 'none', "
                                              "not -1"),
        ("policy.max_result = 5", "line 1", "policy.max_result must be an integer of at least 100, not 5"),
        ("limits.max_total_tokens = 'all'", "line 1", "must be an integer of at least 0 or 'none', not "
                                                      "'all'"),
        ("limits.max_cost = -0.5", "line 1", "limits.max_cost must be a number of at least 0 or 'none', not "
                                             "-0.5"),
        ("policy.max_repeats = -1", "line 1", "policy.max_repeats must be an integer of at least 0, not -1"),
        ("[policy]\nrates.git = 5", "line 2",
            "policy.rates.git must be a table such as { calls = 10, seconds = 60 }, not 5"),
        ("[policy.rates.git]\ncall = 5", "line 1", "must be a table such as { calls = 10, seconds = 60 }, "
                                                   "not"),
        ("policy.rates.git = {calls = 5, second = 1}", "line 1", "policy.rates.git must be a table"),
        ("policy.rates.git = {calls = -1}", "line 1", "policy.rates.git must be a table"),
        ("policy.rates.git = {calls = 1, seconds = nan}", "line 1", "policy.rates.git must be a table"),
        ("limits.request_rates.gemini = {requests = 0}", "line 1",
            "limits.request_rates.gemini must be a table such as { requests = 50, tokens = 80000, seconds = "
            "60 }, not"),
        ("policy.max_uses.git = -1", "line 1", "policy.max_uses.git must be an integer of at least 0, not "
                                               "-1"),
        ("policy.on_error = 'stop'", "line 1", "policy.on_error must be 'continue', 'abort' or 'retry', not "
                                               "'stop'"),
        ("generation.temperature = 3", "line 1", "must be a number of at least 0 and of at most 2 or 'none', "
                                                 "not 3"),
        ("generation.top_p = -0.5", "line 1", "must be a number of at least 0 and of at most 1 or 'none', "
                                              "not -0.5"),
        ("providers.gemini.generation.max_tokens = 0", "line 1", "generation.max_tokens must be an integer "
                                                                 "of at"),
        ("timeouts.connect = 0", "line 1", "timeouts.connect must be a number above 0 or 'none', not 0"),
        ("retry.max_retries = -1", "line 1", "retry.max_retries must be an integer of at least 0, not -1"),
        ("retry.jitter = 2", "line 1", "retry.jitter must be a number of at least 0 and of at most 1, not 2"),
        ("context.keep = 1", "line 1", "context.keep must be a number above 0 and below 1, not 1"),
        ("context.keep = 0", "line 1", "context.keep must be a number above 0 and below 1, not 0"),
        ("context.budget = 0", "line 1", "context.budget must be an integer of at least 1 or 'none', not 0"),
        ("chat.thinking = 'x'", "line 1", "chat.thinking must be 'folded', 'shown' or 'hidden', not 'x'"),
        ("chat.result_lines = -1", "line 1", "chat.result_lines must be an integer of at least 0, not -1"),
        ("log.level = 'loud'", "line 1", "log.level must be 'debug', 'info', 'warning' or 'error', not "
                                         "'loud'"),
    ])  # fmt: skip
    def test_a_mistake_in_a_file_is_one_sentence_with_its_line(
        self, home: Home, text: str, line: str, expected: str
    ) -> None:
        for user, project, file in ((text, "", home.user_file), ("", text, home.project_file)):
            with pytest.raises(UsageError) as error:
                home.read(user, project)
            message = str(error.value)
            assert message.startswith(f"{file}, {line}: ")
            assert expected in message
            assert "\n" not in message

    def test_a_line_of_a_multi_line_string_is_no_setting(self, home: Home) -> None:
        with pytest.raises(UsageError, match=r", line 5: limits\.max_iterations must"):
            home.read('system = """\n[limits]\nmax_iterations = -1\n"""\nlimits.max_iterations = -1\n')

    @pytest.mark.parametrize("text", [
        '[providers.gemini]\nheaders = "k-12345678"',
        '[providers.gemini]\nheaders = { a = ["k-12345678"] }',
        '[providers.gemini]\nheaders.a = { b = "k-12345678" }',
        'limits.max_iterations = "sk-ant-api03-abcdefghijklmnop12345678"',
    ])  # fmt: skip
    def test_no_error_shows_a_key(self, home: Home, text: str) -> None:
        with pytest.raises(UsageError) as error:
            home.read(text)
        assert "12345678" not in str(error.value)

    def test_the_line_that_is_not_utf_8_is_named(self, home: Home) -> None:
        home.user_file.write_bytes(b'model = "x"\nsystem = "\xff"\n')
        with pytest.raises(UsageError, match=r"config\.toml, line 2: not UTF-8; save the file as UTF-8$"):
            read_configuration(directory=home.project)

    def test_an_unreadable_file_is_named(self, home: Home) -> None:
        home.user_file.mkdir()
        with pytest.raises(
            UsageError, match=r"^cannot read the configuration '.*config\.toml': Is a directory$"
        ):
            read_configuration(directory=home.project)

    @pytest.mark.parametrize(("document", "problem"), [
        ("#" * 64_001, "larger than 64,000 bytes"),
        (f"a = {'[' * 60_000}", "is nested too deeply"),
        # tomllib does not say where
        (f"a = {'1' * 5_000}", r"toolglot\.toml: invalid TOML: .* has 5000 digits$"),
        # tomllib would need gigabytes for each of these
        (f"aliases{'.a' * 30_000} = 1", "a key with more than 20 parts"),
        (f"[a{' . a' * 12_000}]", "a key with more than 20 parts"),
        ('["a b"' + '."a\\" b"' * 6_000 + "]", "a key with more than 20 parts"),
        (f"x = {{a{'.a' * 30_000} = 1}}", "a key with more than 20 parts"),
        (f'x = {{s = """a"""", a{".a" * 30_000} = 1, t = "b"}}', "a key with more than 20 parts"),
        (f"x = {{s = '''a'''', a{'.a' * 30_000} = 1, t = 'b'}}", "a key with more than 20 parts"),
        ("fallbacks = [" + '"a",' * 1_001 + "]", "line 1: fallbacks exceeds the limit of 1,000 entries"),
        ("\n".join(f'aliases.a{i} = "b"' for i in range(1_002)), "line 1002: aliases.a1001 exceeds the limit "
                                                                 "of"),
    ])  # fmt: skip
    def test_files_that_would_take_too_much_are_refused_before_they_are_parsed(
        self, home: Home, document: str, problem: str
    ) -> None:
        with pytest.raises(UsageError, match=problem):
            home.read("", document)

    def test_dots_in_strings_and_comments_do_not_count(self, home: Home) -> None:
        dots = "a." * 100
        configuration = home.read(
            f'system = """\n{dots} "quoted" {dots}\n"""  # {dots}\nmodel = \'{dots}\'\naudit = false # '
            f'"{dots}'
        )
        assert configuration.settings.model == dots

    @pytest.mark.parametrize(
        "name",
        [
            "anthropic:claude-sonnet-4-5",
            "a:b",
            "openai",
            "simulator",
            "gpt",
            "claude-sonnet-4-5",
            "o3",
            "gemini-2.5-pro",
        ],
    )
    def test_an_alias_cannot_look_like_a_provider_or_a_model(self, home: Home, name: str) -> None:
        with pytest.raises(
            UsageError, match=f"^.*line 2: '{name}' is the name of a provider or of a model: choose another"
        ):
            home.read("", f'[aliases]\n"{name}" = "simulator"')

    @pytest.mark.parametrize(("flags", "expected"), [
        ({"limits.max_iterations": -1}, "the flag --max-iterations must be an integer of at least 0, not -1"),
        ({"limits.max_iterations": "x"}, "the flag --max-iterations must be an integer of at least 0, not "
                                         "'x'"),
        ({"modell": "x"}, "the flag --modell: there is no setting 'modell'; did you mean 'model'?"),
        ({"policy": "x"}, "the flag --policy: 'policy' is a section: name a setting in it, such as "
                          "'policy.allow'"),
        ({"providers.x.base_url": "y"}, "the flag --base-url: there is no provider 'x'; did you mean"),
    ])  # fmt: skip
    def test_a_wrong_flag_is_named(self, home: Home, flags: dict[str, Any], expected: str) -> None:
        with pytest.raises(UsageError) as error:
            home.read(flags=flags)
        assert str(error.value).startswith(expected)


class TestEnvironment:
    @pytest.mark.parametrize(("name", "text", "key", "value"), [
        ("TOOLGLOT_MODEL", "simulator:gemini", "model", "simulator:gemini"),
        ("TOOLGLOT_FALLBACKS", "simulator, simulator:ollama,", "fallbacks", ("simulator", "simulator:ollama")),
        ("TOOLGLOT_SYSTEM", " Be brief. ", "system", " Be brief. "),
        ("TOOLGLOT_AUDIT", "off", "audit", False),
        ("TOOLGLOT_AUDIT", "/x/audit.jsonl", "audit", "/x/audit.jsonl"),
        ("TOOLGLOT_LIMITS_MAX_ITERATIONS", " 3 ", "limits.max_iterations", 3),
        ("TOOLGLOT_POLICY_TIMEOUT", "1.5", "policy.timeout", 1.5),
        ("TOOLGLOT_POLICY_TIMEOUT", "none", "policy.timeout", "none"),
        ("TOOLGLOT_POLICY_ALLOW", "git_*,read", "policy.allow", ("git_*", "read")),
        ("TOOLGLOT_POLICY_ASK", "write", "policy.ask", ("write",)),
        ("TOOLGLOT_TIMEOUTS_FIRST_BYTE", "none", "timeouts.first_byte", None),
        ("TOOLGLOT_GENERATION_EFFORT", "none", "generation.effort", "none"),
        ("TOOLGLOT_LOG_LEVEL", "debug", "log.level", "debug"),
    ])  # fmt: skip
    def test_a_variable_sets_its_key(self, home: Home, name: str, text: str, key: str, value: Any) -> None:
        configuration = home.read(environ={name: text})
        assert values(configuration)[key] == value
        assert origins(configuration)[key] == f"variable {name}"

    def test_an_empty_variable_is_not_set(self, home: Home) -> None:
        assert origins(home.read(environ=dict.fromkeys(setting_variables(), " "))) == origins(home.read())

    @pytest.mark.parametrize(("name", "text", "expected"), [
        ("TOOLGLOT_LIMITS_MAX_ITERATIONS", "many", "must be an integer of at least 0, not 'many'"),
        ("TOOLGLOT_LIMITS_MAX_ITERATIONS", "-1", "must be an integer of at least 0, not -1"),
        ("TOOLGLOT_POLICY_TIMEOUT", "inf", "must be a number above 0 or 'none', not inf"),
        ("TOOLGLOT_POLICY_ASK", "delete", "must be a list of 'read', 'write', 'execute' or 'network', not "
                                          "['delete']"),
        ("TOOLGLOT_LOG_LEVEL", "loud", "must be 'debug', 'info', 'warning' or 'error', not 'loud'"),
        ("TOOLGLOT_CONTEXT_KEEP", "2", "must be a number above 0 and below 1, not 2"),
    ])  # fmt: skip
    def test_a_bad_value_names_its_variable(self, home: Home, name: str, text: str, expected: str) -> None:
        with pytest.raises(UsageError) as error:
            home.read(environ={name: text})
        assert str(error.value) == f"the variable {name} {expected}"

    def test_a_former_name_of_a_variable_is_an_error(self, home: Home) -> None:
        """A limit that the user relies on is not ignored."""
        with pytest.raises(UsageError) as error:
            home.read(environ={"TOOLGLOT_POLICY_MAX_COST": "1"})
        assert str(error.value) == (
            "the variable TOOLGLOT_POLICY_MAX_COST is not a setting; policy.max_cost is now limits.max_cost"
        )

    @pytest.mark.parametrize(
        ("name", "meant"),
        [("TOOLGLOT_MODLE", "TOOLGLOT_MODEL"), ("TOOLGLOT_POLICY_DENNY", "TOOLGLOT_POLICY_DENY")],
    )
    def test_a_misspelt_variable_is_an_error(self, home: Home, name: str, meant: str) -> None:
        with pytest.raises(UsageError) as error:
            home.read(environ={name: "x"})
        assert str(error.value) == f"the variable {name} is not a setting; did you mean {meant}?"

    @pytest.mark.parametrize("key", ["aliases", "providers", "policy.max_uses", "limits.request_rates"])
    def test_a_variable_for_a_table_is_an_error(self, home: Home, key: str) -> None:
        name = f"TOOLGLOT_{key}".replace(".", "_").upper()
        with pytest.raises(UsageError) as error:
            home.read(environ={name: "3"})
        assert (
            str(error.value) == f"the variable {name} cannot hold a table; set {key} in a configuration file"
        )

    def test_other_variables_may_start_like_ours(self, home: Home) -> None:
        names = (
            "TOOLGLOT_STATE",
            "TOOLGLOT_API_KEY",
            "TOOLGLOT_BASE_URL",
            "TOOLGLOT_LIVE_MODELS",
            "TOOLGLOT_X",
        )
        assert origins(home.read(environ=dict.fromkeys(names, "x"))) == origins(home.read())

    def test_variables_that_are_no_settings(self) -> None:
        assert not {"TOOLGLOT_API_KEY", "TOOLGLOT_BASE_URL", "TOOLGLOT_CONFIG", "TOOLGLOT_STATE"} & set(
            setting_variables()
        )

    def test_every_key_without_a_wildcard_has_a_variable(self) -> None:
        assert len(setting_variables()) == len([leaf for leaf in setting_fields() if "*" not in leaf.key])


def test_a_configuration_that_is_written_by_hand_gives_the_same_settings(home: Home) -> None:
    text = '[limits]\nmax_iterations = 2\n[providers.gemini]\nheaders = { a = "b" }\nurl_parameters = {}\n'
    direct = {"limits": {"max_iterations": 2}, "providers": {"gemini": {"headers": {"a": "b"}}}}
    assert home.read(text).settings == msgspec.convert(direct, Settings)
