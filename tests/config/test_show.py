import json
from pathlib import Path

import pytest
from homes import Home

from toolglot.cli.config import show_configuration
from toolglot.cli.main import app
from toolglot.config.setting_schema import setting_fields
from toolglot.config.trust import is_trusted
from toolglot.errors import UsageError

SECRET = "sk-ant-api03-abcdefghijklmnop1234567890"
USER = f"""
system = "The key is {SECRET}"
[limits]
max_iterations = 5
[providers.anthropic]
base_url = "https://me:passw0rd@proxy"
headers = {{ x-own = "opaque-thing", base_url = "other-thing" }}
"""
PROJECT = """
defer = ["all"]
tools = ["evil:tools"]
[providers.anthropic.headers]
x-more = "third-thing"
[aliases]
"a\\u001b[31m\\u202e" = "simulator"
"""
SECRETS = (SECRET, "passw0rd", "opaque-thing", "other-thing", "third-thing")


def run(*words: str) -> None:
    app(list(words), standalone_mode=False)


class TestShow:
    def test_every_value_stands_there_with_its_origin(
        self, home: Home, capsys: pytest.CaptureFixture[str]
    ) -> None:
        configuration = home.read(USER, PROJECT)
        show_configuration(configuration, json=False)
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].split(maxsplit=2) == ["defer", '["all"]', f"(project file {home.project_file})"]
        assert any(
            line.split(maxsplit=2) == ["limits.max_iterations", "5", f"(user file {home.user_file})"]
            for line in lines
        )
        assert any(line.split() == ["generation.top_p", "unset"] for line in lines)
        shown = [line.split()[0] for line in lines if line.strip() and not line.startswith(("  ", "ignored"))]
        assert len(shown) == len(configuration.values)
        first_default = lines.index("")
        assert all(" file " in line for line in lines[:first_default])

    def test_what_was_held_back_is_at_the_end_with_what_to_do(
        self, home: Home, capsys: pytest.CaptureFixture[str]
    ) -> None:
        show_configuration(home.read(USER, PROJECT), json=False)
        title, tools, header, alias = capsys.readouterr().out.splitlines()[-4:]
        assert title == f"ignored because {home.project} is not trusted (run `toolglot trust`):"
        assert tools == '  tools = ["evil:tools"]: only a trusted directory may set it'
        assert (
            header == '  providers.anthropic.headers.x-more = "[hidden]": only a trusted directory may set it'
        )
        assert alias.startswith("  aliases.")

    @pytest.mark.parametrize("as_json", [True, False])
    @pytest.mark.parametrize("trusted", [True, False])
    def test_no_secret_and_nothing_that_a_terminal_obeys_is_shown(
        self, home: Home, capsys: pytest.CaptureFixture[str], as_json: bool, trusted: bool
    ) -> None:
        show_configuration(home.read(USER, PROJECT, trusted=trusted), json=as_json)
        output = capsys.readouterr().out
        assert [secret for secret in SECRETS if secret in output] == []
        assert "\x1b" not in output
        assert as_json or "\u202e" not in output

    def test_json_has_it_all(self, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
        configuration = home.read(USER, PROJECT)
        show_configuration(configuration, json=True)
        document = json.loads(capsys.readouterr().out)
        assert [value["key"] for value in document["values"]] == [value.key for value in configuration.values]
        origin = f"project file {home.project_file}"
        assert {"key": "defer", "value": ["all"], "origin": origin} in document["values"]
        reason = "only a trusted directory may set it"
        assert document["held_back"][0] == {"key": "tools", "value": ["evil:tools"], "why": reason}
        assert (document["project"], document["trusted"]) == (str(home.project), False)

    def test_without_a_file_it_says_that_these_are_the_defaults(
        self, home: Home, capsys: pytest.CaptureFixture[str]
    ) -> None:
        show_configuration(home.read(), json=False)
        assert capsys.readouterr().out.startswith("all settings have their default values\n")


class TestWhere:
    def test_files_are_named_and_said_to_be_there_or_not(
        self, home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home.read()
        monkeypatch.chdir(home.project)
        run("config", "path")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["user", "file", str(home.user_file)]
        assert lines[1].split() == ["project", "file", str(home.project_file)]
        assert lines[2].split() == [
            "trusted",
            "directories",
            str(home.state / "trust.json"),
            "(does",
            "not",
            "exist)",
        ]

    def test_as_json(self, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
        run("config", "path", "--json")
        assert json.loads(capsys.readouterr().out)[0] == {
            "what": "user file",
            "path": str(home.user_file),
            "exists": False,
        }


class TestTrustFolder:
    def test_what_is_asked_for_is_shown_before_it_is_trusted(
        self, home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home.read(USER, PROJECT)
        below = home.project / "below"
        below.mkdir()
        monkeypatch.chdir(below)
        run("trust")
        output = capsys.readouterr().out
        assert output.index("evil:tools") < output.index(f"{home.project} is now trusted: ")
        assert is_trusted(home.project)
        run("trust")
        assert capsys.readouterr().out == f"{home.project} is already trusted\n"
        run("trust", "--list")
        assert capsys.readouterr().out == f"{home.project}\n"
        run("trust", str(home.project), "--remove")
        output = capsys.readouterr().out
        assert output.startswith(f"{home.project} is no longer trusted\n")
        assert "evil:tools" in output
        assert not is_trusted(home.project)
        run("trust", "--list")
        assert capsys.readouterr() == ("", "toolglot: no directory is trusted\n")
        assert [secret for secret in SECRETS if secret in output] == []

    def test_a_file_with_a_mistake_is_not_trusted(self, home: Home) -> None:
        home.project_file.write_text("modle = 1")
        with pytest.raises(UsageError, match="did you mean 'model'"):
            run("trust", str(home.project))
        assert not is_trusted(home.project)

    def test_a_folder_without_a_file_may_be_trusted_in_advance(
        self, home: Home, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("trust", str(home.project))
        assert capsys.readouterr().out.startswith(f"{home.project} is now trusted: ")
        assert is_trusted(home.project)

    def test_nothing_is_trusted_by_accident(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(home.project)
        with pytest.raises(UsageError, match=r"^nothing here needs trust"):
            run("trust")
        assert not is_trusted(home.project)

    def test_whatever_needs_trust_here_and_above_is_found(
        self, home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        below = home.project / "below"
        for path in (home.project / ".git", below):
            path.mkdir()
        (home.project / "AGENTS.md").write_text("Use tabs.")
        (below / ".mcp.json").write_text('{"mcpServers": {"files": {"command": "serve-files"}}}')
        monkeypatch.chdir(below)
        run("trust")
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"{home.project}/AGENTS.md has instructions for models"
        assert lines[1].startswith(f"{below}/.mcp.json starts the MCP server files: ")
        assert lines[-2].startswith(f"{home.project} is now trusted: ")
        assert lines[-1] == f"{below} is already trusted"  # with it

    def test_what_was_not_trusted_has_no_effects_to_lose(
        self, home: Home, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (home.project / "AGENTS.md").write_text("Use tabs.")
        run("trust", str(home.project), "--remove")
        assert capsys.readouterr().out == f"{home.project} was not trusted\n"

    def test_a_folder_that_does_not_exist_is_named(self) -> None:
        with pytest.raises(UsageError, match=r"^no such directory: 'nowhere'$"):
            run("trust", "nowhere")


def test_the_example_of_the_documentation_is_a_configuration(home: Home) -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.partition("## File format")[2].partition("```toml\n")[2].partition("```")[0]
    configuration = home.read(example)
    sections = {value.key.partition(".")[0] for value in configuration.values if value.origin != "default"}
    assert sections == {leaf.key[0] for leaf in setting_fields()}
