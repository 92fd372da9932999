"""MCP servers on the command line."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cli_kit import run_cli
from tests.mcp.test_client_http import serve

from toolglot.config.trust import trust_directory
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_sandbox

LYING = Path(__file__).parents[1] / "mcp" / "servers" / "lying.py"
SERVER = Path(__file__).parents[1] / "mcp" / "scripted_server.py"
needs_sandbox = pytest.mark.skipif(probe_sandbox().level is SandboxLevel.NONE, reason="no sandbox works here")


@pytest.fixture(autouse=True)
def home(isolated_home: Path) -> Path:
    return isolated_home


def write_servers(home: Path, name: str = "mcp.json", **entries: dict[str, Any]) -> str:
    """Write a file with a server that works, and others."""
    # Not that of a virtual environment: a checkout in /tmp is hidden in the sandbox.
    python = getattr(sys, "_base_executable", sys.executable)
    # the user's own servers are not in the workspace
    script = (home if name == ".mcp.json" else Path.home()) / "server.py"
    local = {"command": python, "args": [str(script), "${workspaceFolder}"]}
    script.write_bytes(SERVER.read_bytes())
    (home / name).write_text(json.dumps({"mcpServers": {"local": local, **entries}}))
    return str(home / name)


def run_simulator(prompt: str, *words: str) -> Any:
    return run_cli("run", "-m", "simulator", *words, prompt)


class TestRun:
    def test_a_model_calls_tools_of_servers_and_one_that_fails_is_a_note(self, home: Path) -> None:
        file = write_servers(home, bad={"command": "no-such-program"}, off={"command": "x", "disabled": True})
        outcome = run_simulator(
            'call mcp__local__echo {"text": "hello"}', "--mcp-config", file, "--approve", "mcp__local__echo"
        )
        assert (outcome.code, "mcp__local__echo: hello" in outcome.out) == (0, True)
        assert "MCP server bad cannot be used: " in outcome.err
        assert "MCP server local: 2 tools left out or changed (toolglot mcp test local)" in outcome.err
        assert "off" not in outcome.err

    def test_a_prompt_on_stdin_and_servers_go_together(self, home: Path) -> None:
        words = ("--mcp-config", write_servers(home), "--approve", "mcp__local__echo")
        outcome = run_cli("run", "-m", "simulator", *words, stdin='call mcp__local__echo {"text": "piped"}')
        assert (outcome.code, "mcp__local__echo: piped" in outcome.out) == (0, True), outcome.err

    @pytest.mark.parametrize("is_terminal", [False, True])
    def test_only_with_a_person_a_sign_in_is_begun(self, home: Path, is_terminal: bool) -> None:
        requests: list[str] = []
        with serve(oauth=True, elsewhere={"authorization": "https://127.0.0.1:1"}, requests=requests) as (
            url,
            _,
        ):
            (home / "mcp.json").write_text(json.dumps({"mcpServers": {"s": {"url": url}}}))
            outcome = run_cli(
                "run",
                "-m",
                "simulator",
                "--mcp-config",
                str(home / "mcp.json"),
                "hi",
                is_terminal=is_terminal,
            )
        assert ("POST /register" in requests) is is_terminal
        if not is_terminal:
            assert set(requests) == {"POST /mcp"}
            assert "s requires you to sign in; run this in a terminal: toolglot mcp test s" in outcome.err

    def test_what_writes_needs_approval_and_rules_name_servers(self, home: Path) -> None:
        file = write_servers(home)
        outcome = run_simulator('call mcp__local__write {"text": "x"}', "--mcp-config", file)
        assert outcome.code == 3
        assert "mcp__local__write needs approval" in outcome.err
        outcome = run_simulator(
            'call mcp__local__write {"text": "x"}', "--mcp-config", file, "--approve", "mcp__local__*"
        )
        assert outcome.code == 0
        outcome = run_simulator(
            'call mcp__local__echo {"text": "x"}', "--mcp-config", file, "--deny", "mcp__local__echo"
        )
        assert "mcp__local__echo: x" not in outcome.out
        outcome = run_simulator("hi", "--mcp-config", file, "--allow", "mcp__other__*")
        assert outcome.err.startswith("toolglot: unknown tool in --allow 'mcp__other__*'; known: ")
        assert outcome.code == 2

    def test_a_missing_variable_and_a_file_that_is_not_there(self, home: Path) -> None:
        file = write_servers(home, needy={"command": "x", "env": {"A": "${NOT_SET_AT_ALL}"}})
        outcome = run_simulator("hi", "--mcp-config", file)
        assert outcome.code == 0
        assert "the MCP server needy needs the variable NOT_SET_AT_ALL, which is not set" in outcome.err
        outcome = run_cli("call", "mcp__needy__x", "{}", "--mcp-config", file)
        assert "the MCP server needy needs the variable NOT_SET_AT_ALL, which is not set" in outcome.err
        outcome = run_simulator("hi", "--mcp-config", "none.json")
        assert (outcome.code, "No such file" in outcome.err) == (2, True)

    def test_secrets_of_servers_are_never_shown(self, home: Path) -> None:
        secret = "s3cret-of-the-server"
        file = write_servers(
            home,
            leaky={
                "command": "sh",
                "args": ["-c", "echo wrong: $TOKEN >&2; exit 1"],
                "env": {"TOKEN": "${LEAKY_TOKEN}"},
            },
            web={"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": f"Bearer {secret}"}},
        )
        words = ("--mcp-config", file, "-vv", "--log-file", "log.jsonl")
        outcome = run_cli("run", "-m", "simulator", *words, "hi", LEAKY_TOKEN=secret)
        assert "MCP server leaky cannot be used" in outcome.err
        assert "MCP server web cannot be used" in outcome.err
        log = (home / "log.jsonl").read_text()
        assert "leaky" in log
        assert secret not in outcome.out + outcome.err + log
        for command in ("list", "test"):
            outcome = run_cli(
                "mcp",
                command,
                *(["leaky"] if command == "test" else []),
                "--mcp-config",
                file,
                LEAKY_TOKEN=secret,
            )
            assert "leaky" in outcome.out
            assert secret not in outcome.out + outcome.err

    @needs_sandbox
    def test_servers_of_a_project_start_in_a_sandbox_once_it_is_trusted(self, home: Path) -> None:
        write_servers(home, ".mcp.json")
        words = 'call mcp__local__echo {"text": "hello"}'
        outcome = run_simulator(words)
        assert "ignoring the MCP server local in" in outcome.err
        assert "run `toolglot trust" in outcome.err
        assert "hello" not in outcome.out
        outcome = run_cli("trust", ".")
        assert f"{home}/.mcp.json starts the MCP server local: " in outcome.out
        assert "mcp__local__echo needs approval" in run_simulator(words).err  # whatever its server says
        shown = run_simulator("call mcp__local__environment {}", "--yes").out
        assert "TMPDIR" in shown  # which the sandbox sets
        assert "mcp__local__echo: hello" not in run_simulator(words, "--no-mcp").out

    def test_a_server_that_takes_long_is_named(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("toolglot.cli.servers._PATIENCE_SECONDS", 0)
        outcome = run_simulator("say hello", "--mcp-config", write_servers(home))
        assert (outcome.out, "waiting for MCP servers: local" in outcome.err) == ("hello\n", True)

    @needs_sandbox
    def test_what_the_sandbox_hides_is_explained(self, home: Path) -> None:
        (home / ".mcp.json").write_text('{"mcpServers": {"p": {"command": "/no/such/program"}}}')
        trust_directory(home)
        outcome = run_cli("mcp", "test", "p")
        assert "it exited with code 127; last output: " in outcome.out
        assert "sandbox = false" in " ".join(outcome.out.split())


class TestLyingServer:
    """The user's own server says that its tool only reads, and talks to nobody."""

    CALL = 'call mcp__evil__lookup {"note": "TOKEN=abc"}'
    WAYS = (
        "needs approval (use --approve RULE or --yes, or set trust = true for an MCP server that you trust)"
    )

    @pytest.fixture
    def settings(self, home: Path) -> Path:
        file = home / "user" / "config.toml"
        args = ["-I", "-S", str(LYING), str(home), "harmless"]
        file.write_text(
            f"[mcp.servers.evil]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
        )
        return file

    def test_nothing_runs_unless_somebody_allows_it(self, home: Path, settings: Path) -> None:
        calls = home / "calls"
        outcome = run_simulator(self.CALL)
        assert (outcome.code, self.WAYS in outcome.err) == (3, True)
        outcome = run_cli("call", "mcp__evil__lookup", '{"note": "x"}')
        assert (outcome.code, self.WAYS in outcome.err) == (1, True)
        explained = run_cli("call", "mcp__evil__lookup", '{"note": "x"}', "--explain").out
        assert (
            "mcp__evil__lookup asks: it can change files and use the network, and no rule allows it"
            in explained
        )
        chat = run_cli("chat", "-m", "simulator", stdin=f"{self.CALL}\nn\n/quit\n")
        assert "? mcp__evil__lookup wants to run (network, read, write)" in chat.out + chat.err
        assert "mcp__evil__lookup" in run_cli("tools").out
        assert not calls.exists()
        for words in (("--approve", "mcp__evil__*"), ("--yes",)):
            assert run_simulator(self.CALL, *words).code == 0
        assert calls.read_text().count("TOKEN=abc") == 2

    def test_trust_is_shown(self, home: Path, settings: Path) -> None:
        tested = run_cli("mcp", "test", "evil")
        assert re.search(r"approval +each call needs it, unless a rule allows it\n", tested.out)
        assert "(network, read, write) Look a word up." in tested.out
        settings.write_text(f"{settings.read_text()}trust = true\n")
        assert re.search(r"approval +none: you trust it\n", run_cli("mcp", "test", "evil").out)
        listed = run_cli("mcp", "list", COLUMNS="1000").out  # as wide as the paths of any machine
        assert re.search(r"sandbox +trust.*\nevil .* no +yes", listed)
        assert run_simulator(self.CALL).code == 0
        assert run_cli("call", "mcp__evil__lookup", '{"note": "x"}').code == 0
        assert run_cli("call", "mcp__evil__lookup", '{"note": "x"}', "--deny", "mcp__evil__*").code == 1
        assert (home / "calls").read_text() == '{"note": "TOKEN=abc"}\n{"note": "x"}\n'

    def test_a_trusted_project_cannot_trust_its_own(self, home: Path, settings: Path) -> None:
        (home / "toolglot.toml").write_text(settings.read_text() + "trust = true\nsandbox = false\n")
        settings.write_text("")
        trust_directory(home)
        outcome = run_simulator(self.CALL)
        assert (
            "mcp.servers.evil.trust was ignored, because toolglot.toml defines or changes this server"
            in outcome.err
        )
        assert outcome.code == 3
        assert not (home / "calls").exists()


class TestCommands:
    def test_list_add_and_remove(self, home: Path) -> None:
        assert "no MCP servers are configured" in run_cli("mcp", "list").err
        user_file = home / "user" / "config.toml"
        user_file.write_text("# mine\n")
        added = run_cli(
            "mcp", "add", "files", "-e", "TOKEN=${HOME}", "--allow", "get_*", "--", "npx", "-y", "some-server"
        )
        assert (added.code, "added files to" in added.out) == (0, True)
        header = "Authorization: Bearer abc-12345678"
        assert run_cli("mcp", "add", "web", "https://x/mcp", "more").code == 2
        assert run_cli("mcp", "add", "web", "https://x/mcp", "-H", header, "--trust", "--json").records() == [
            {"name": "web", "file": str(user_file)}
        ]
        assert run_cli("mcp", "add", "js", '{"type": "http", "url": "https://y"}').code == 0
        assert user_file.read_text() == (
            '# mine\n\n[mcp.servers.files]\ncommand = "npx"\nargs = ["-y","some-server"]\nenv.TOKEN = '
            '"${HOME}"\n'
            'allow = ["get_*"]\n\n[mcp.servers.web]\nurl = "https://x/mcp"\nheaders.Authorization = "Bearer '
            'abc-12345678"\n'
            'trust = true\n\n[mcp.servers.js]\nurl = "https://y"\n'
        )
        rows = json.loads(run_cli("mcp", "list", "--json").out)
        assert [(row["name"], row["state"], row["target"], row["trust"]) for row in rows] == [
            ("files", "enabled", "npx -y some-server", False),
            ("web", "enabled", "https://x/mcp", True),
            ("js", "enabled", "https://y", False),
        ]
        for words in (
            ("config", "show"),
            ("config", "show", "--json"),
            ("doctor", "--json"),
            ("mcp", "list"),
        ):
            outcome = run_cli(*words)
            assert "web" in outcome.out
            assert "abc-12345678" not in outcome.out + outcome.err
        assert run_cli("mcp", "remove", "web").code == 0
        assert run_cli("mcp", "remove", "files").code == 0
        assert user_file.read_text() == '# mine\n\n[mcp.servers.js]\nurl = "https://y"\n'

    @pytest.mark.parametrize(("words", "message"), [
        (("x",), "Missing argument"),
        (("x", "npx", "-y"), "-y"),
        (("--project", "--trust", "x", "cmd"), "a project's file cannot trust its own servers"),
        (("js", "{"), "is not JSON"),
        (("js", '{"type": "sse", "url": "https://x"}'), "Streamable HTTP"),
        (("js", '{"mcpServers": {"js": {"url": "https://x"}}}'), "pass only one server's object from "
                                                                 "'mcpServers'"),
        (("-e", "NOVALUE", "x", "cmd"), "has no value"),
        (("", "cmd"), "'' is not a valid server name"),
        (("a\nb", "cmd"), "is not a valid server name"),
        (("my api", "localhost:8000/mcp"), "toolglot mcp add 'my api' http://localhost:8000/mcp"),
        (("x", "api.example.com/mcp"), "begins with http:// or https://"),
        (("x", "npx -y some-server"), "separate words: toolglot mcp add x -- npx -y some-server"),
    ])  # fmt: skip
    def test_what_cannot_be_added(self, words: tuple[str, ...], message: str) -> None:
        outcome = run_cli("mcp", "add", *words)
        assert outcome.code == 2
        assert message in outcome.err

    def test_a_projects_file(self, home: Path) -> None:
        outcome = run_cli("mcp", "add", "--project", "s", "cmd")
        assert "try it with: toolglot trust && toolglot mcp test s\n" in outcome.out
        assert "only if the directory is trusted" in outcome.err
        assert (home / "toolglot.toml").read_text() == '[mcp.servers.s]\ncommand = "cmd"\n'
        rows = json.loads(run_cli("mcp", "list", "--json").out)
        assert [(row["name"], row["state"]) for row in rows] == [("s", "not trusted: run toolglot trust")]
        assert "the MCP server s is not trusted" in run_cli("mcp", "test", "s").err
        noted = run_simulator("hi").err
        assert "ignoring mcp.servers.s.command in" in noted
        assert "the MCP server s" not in noted  # once is enough
        assert run_cli("trust").code == 0
        rows = json.loads(run_cli("mcp", "list", "--json").out)
        assert [(row["name"], row["sandbox"]) for row in rows] == [("s", True)]
        assert run_cli("mcp", "remove", "--project", "s").code == 0

    def test_a_test_says_what_there_is_and_what_is_lost(self, home: Path) -> None:
        file = write_servers(home, bad={"command": "no-such-program"})
        outcome = run_cli("mcp", "test", "local", "--mcp-config", file)
        assert outcome.code == 0
        for text in (
            "local: ready after",
            "scripted 1.2",
            "none: it runs with your full permissions",
            "directory",
            "mcp__local__echo",
            "broken_schema",
        ):
            assert text in outcome.out
        assert "gemini              anyOf at tool 'mcp__local__any_of'" in outcome.out
        (record,) = run_cli(
            "mcp", "test", "local", "--mcp-config", file, "-m", "openai:gpt-5", "--json"
        ).records()
        assert (record["state"], record["protocol"], record["tools"][0]["name"]) == (
            "ready",
            "2025-11-25",
            "mcp__local__echo",
        )
        assert list(record["losses"]) == ["openai:gpt-5"]
        outcome = run_cli("mcp", "test", "bad", "--mcp-config", file)
        assert outcome.code == 1
        assert "bad: failed after" in outcome.out
        outcome = run_cli("mcp", "test", "locl", "--mcp-config", file)
        assert (outcome.code, "did you mean 'local'" in outcome.err) == (2, True)
        listed = run_cli("mcp", "list", "--start", "--json", "--mcp-config", file)
        assert listed.code == 1
        assert [re.split("[:,]", row["state"])[0] for row in json.loads(listed.out)] == ["ready", "failed"]

    def test_a_server_that_is_not_used_cannot_be_tested(self, home: Path) -> None:
        (home / ".mcp.json").write_text('{"mcpServers": {"p": {"command": "x"}}}')
        outcome = run_cli("mcp", "test", "p")
        assert (outcome.code, "the MCP server p is not trusted: run toolglot trust" in outcome.err) == (
            2,
            True,
        )
        file = write_servers(home, off={"command": "x", "disabled": True})
        outcome = run_cli("mcp", "test", "off", "--mcp-config", file)
        assert (outcome.code, f"the MCP server off is disabled in {file}" in outcome.err) == (2, True)

    def test_without_the_package_everything_else_works(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("toolglot.mcp.client.client.find_spec", dict[str, None]().get)
        file = write_servers(home, other={"command": "x"})
        outcome = run_simulator("say hello", "--mcp-config", file)
        assert (outcome.code, outcome.out) == (0, "hello\n")
        assert outcome.err.count("pip install 'toolglot[mcp]'") == 1
        outcome = run_cli("mcp", "test", "local", "--mcp-config", file)
        assert (outcome.code, "pip install" in outcome.out) == (1, True)

    def test_values_of_variables_keep_their_blanks(self, home: Path) -> None:
        assert run_cli("mcp", "add", "-e", "A= b ", "x", "cmd").code == 0
        assert 'env.A = " b "' in (home / "user" / "config.toml").read_text()

    def test_tools_call_and_check(self, home: Path) -> None:
        file = write_servers(home)
        outcome = run_cli("tools", "--mcp-config", file, "-m", "openai:gpt-5", "--json")
        assert '"name":"mcp__local__echo"' in outcome.out
        outcome = run_cli("call", "--mcp-config", file, "--yes", "mcp__local__echo", '{"text": "hello"}')
        assert (outcome.code, outcome.out) == (0, "hello\n")
        outcome = run_cli("check", "--mcp-config", file, "--for", "gemini")
        assert (outcome.code, "mcp__local__any_of" in outcome.out) == (0, True)
        assert run_cli("check").code == 2

    def test_no_server_is_started_for_other_tools(self, home: Path) -> None:
        file = write_servers(home)
        assert run_cli("call", "--mcp-config", file, "glob", '{"pattern": "*.json"}').code == 0
        assert not (home / "log").exists()

    def test_where_a_server_runs_is_shown(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOOLGLOT_STATE", str(Path.home() / "state"))
        (home / ".mcp.json").write_text('{"mcpServers": {"project": {"command": "x"}}}')
        tables = ('own]\ncommand = "x"', 'here]\ncommand = "x"\ncwd = "."', 'web]\nurl = "https://x"')
        (home / "user/config.toml").write_text("\n".join(f"[mcp.servers.{table}" for table in tables))
        private, work = str(Path.home() / "state/mcp/own"), str(home)

        def rows() -> list[tuple[str, str, bool]]:
            listed = json.loads(run_cli("mcp", "list", "--json").out)
            return sorted((row["name"], row["directory"], row["sandbox"]) for row in listed)

        expected = [
            ("here", work, True),
            ("own", private, False),
            ("project", work, True),
            ("web", "", False),
        ]
        assert rows() == expected
        assert private in run_cli("mcp", "list").out
        (report,) = run_cli("doctor", "--json").records()
        assert report["servers"]["own"] == f"enabled: x in {private} ({home}/user/config.toml)"
        assert report["servers"]["here"] == f"enabled, in the sandbox: x in {work} ({home}/user/config.toml)"
        assert any(
            "the MCP server here runs in the sandbox: its directory is in" in text
            for text in report["problems"]
        )
        shown = run_cli("trust", ".").out
        assert f"starts the MCP server project: x, in {work}" in shown
        assert f"your MCP server here leaves the sandbox: x, in {work}" in shown
        assert rows() == [("here", work, False), *expected[1:]]
        assert (
            f"your MCP server here runs in the sandbox: x, in {work}" in run_cli("trust", ".", "--remove").out
        )

    def test_doctor_names_servers(self, home: Path) -> None:
        write_servers(home, ".mcp.json", needy={"command": "x", "args": ["${NOT_SET_AT_ALL}"]})
        (report,) = run_cli("doctor", "--json").records()
        assert report["servers"]["local"].startswith("not trusted: run toolglot trust, in the sandbox: ")
        trust_directory(home)
        (report,) = run_cli("doctor", "--json").records()
        assert report["servers"]["local"].startswith("enabled, in the sandbox: ")
        assert (
            "the MCP server needy needs the variable NOT_SET_AT_ALL, which is not set" in report["problems"]
        )
        assert "MCP servers" in run_cli("doctor").out
