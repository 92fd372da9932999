"""MCP servers in configuration files: our own, and those of other programs."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from homes import Home
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import asdict

from toolglot.config.mcp_files import ServerInput, parse_env_file, parse_server_file, read_server_file
from toolglot.config.mcp_servers import ServerCatalog, ServerEntry, find_servers
from toolglot.config.settings import ServerSettings
from toolglot.config.trust import trust_directory
from toolglot.engine.signin.environment import secret_values
from toolglot.errors import UsageError
from toolglot.mcp import McpOAuth, McpServer, load_servers

FILE = Path("/x/.mcp.json")
KEYS = [
    "command",
    "args",
    "env",
    "url",
    "headers",
    "type",
    "disabled",
    "timeout",
    "oauth",
    "auth",
    "tools",
    "envFile",
    "id",
    "options",
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=4),
)  # fmt: skip
# Entries of which most can be used: from junk alone, hardly any could.
USUAL = st.fixed_dictionaries(
    {},
    optional={
        "command": st.text(max_size=3),
        "url": st.sampled_from(["", "https://x"]),
        "type": st.sampled_from(["stdio", "http", "sse"]),
        "args": st.lists(st.text(max_size=3), max_size=2),
        "timeout": st.integers() | st.floats(),
        "env": st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.booleans(), max_size=2),
    },
)
ENTRIES = ANYTHING | USUAL


def parse(**entry: Any) -> tuple[ServerSettings, str, tuple[str, ...]]:
    file = parse_server_file(json.dumps({"mcpServers": {"s": entry}}), FILE)
    return file.servers["s"].settings, file.servers["s"].problem, file.notes


def non_default_fields(settings: ServerSettings) -> dict[str, Any]:
    return {
        name: value for name, value in asdict(settings).items() if value != getattr(ServerSettings(), name)
    }


class TestForms:
    @pytest.mark.parametrize(("entry", "expected"), [
        ({"command": "npx", "args": ["-y", "p"]}, {"command": "npx", "args": ("-y", "p")}),
        ({"command": "x", "env": {"A": "b", "N": 1, "B": True, "U": None}},
         {"command": "x", "env": {"A": "b", "N": "1", "B": "true"}}),
        ({"type": "stdio", "command": "x", "cwd": "sub"}, {"command": "x", "cwd": "sub"}),
        ({"type": "http", "url": "https://x/mcp", "headers": {"A": "b"}}, {"url": "https://x/mcp", "headers": {"A": "b"}}),
        ({"type": "streamable-http", "url": "https://x"}, {"url": "https://x"}),
        ({"serverUrl": "https://x"}, {"url": "https://x"}),
        ({"httpUrl": "https://x"}, {"url": "https://x"}),
        ({"command": "x", "disabled": True}, {"command": "x", "enabled": False}),
        ({"command": "x", "disabled": False}, {"command": "x"}),
        ({"command": "x", "tools": ["*"]}, {"command": "x"}),
        ({"command": "x", "includeTools": ["a"], "excludeTools": ["b"]}, {"command": "x", "allow": ("a",), "deny": ("b",)}),
        ({"command": "x", "timeout": 5000}, {"command": "x", "timeout": 5.0}),
        ({"command": "x", "timeout": 90}, {"command": "x", "timeout": 90.0}),
        ({"url": "https://x", "oauth": {"clientId": "c", "callbackPort": 8080}},
         {"url": "https://x", "oauth": McpOAuth(client_id="c", redirect_port=8080)}),
        ({"url": "https://x", "auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "s", "scopes": ["r"]}},
         {"url": "https://x", "oauth": McpOAuth(client_id="c", client_secret="s", scopes=("r",))}),
        ({"command": "x", "description": "what it is", "gallery": True, "dev": {}}, {"command": "x"}),
    ])  # fmt: skip
    def test_what_other_programs_write(self, entry: dict[str, Any], expected: dict[str, Any]) -> None:
        settings, problem, notes = parse(**entry)
        assert (non_default_fields(settings), problem, notes) == (expected, "", ())

    @pytest.mark.parametrize(("entry", "words"), [
        ({}, "neither a command nor a url"),
        ({"command": "x", "url": "https://x"}, "both a command and a url"),
        ({"type": "sse", "url": "https://x"}, "Streamable HTTP"),
        ({"type": "ws", "url": "https://x"}, "unknown type 'ws'"),
        ({"type": "http", "command": "x"}, "which requires a url"),
        ({"command": 5}, "command: expected `str`"),
        ({"command": "x", "args": "-y"}, "args: expected"),
        ({"command": "x", "env": []}, "env: expected"),
    ])  # fmt: skip
    def test_a_bad_entry_has_a_problem(self, entry: dict[str, Any], words: str) -> None:
        problem = parse(**entry)[1]
        assert words in problem
        assert problem.startswith("/x/.mcp.json: s ")

    def test_other_entries_of_a_file_with_a_bad_one(self) -> None:
        file = parse_server_file('{"mcpServers": {"bad": 5, "good": {"command": "x"}}}', FILE)
        assert file.servers["bad"].problem == "/x/.mcp.json: bad must be an object, not a number"
        assert file.servers["good"].problem == ""

    def test_what_is_not_understood_is_told(self) -> None:
        _, problem, notes = parse(command="x", comand="y", alwaysAllow=["delete_all"], headersHelper="z")
        assert problem == ""
        assert [note.removeprefix("/x/.mcp.json: s: ") for note in notes] == [
            "the key 'comand' is unknown and was ignored; did you mean 'command'?",
            "'alwaysAllow' was ignored: only you approve calls (policy.approve, mcp.servers.NAME.trust)",
            "the key 'headersHelper' is unknown and was ignored; did you mean 'headers'?",
        ]
        assert parse_server_file('{"servers": {}, "other": 1}', FILE).notes == (
            "/x/.mcp.json: the key 'other' is unknown and was ignored",
        )
        assert parse_server_file('{"servers": {}, "a": 1, "b": 2, "c": 3}', FILE).notes == (
            "/x/.mcp.json: the key 'a' and 2 others are unknown and were ignored",
        )

    def test_comments_inputs_and_commas_of_vs_code(self) -> None:
        file = parse_server_file(
            """{
            // the servers
            "inputs": [
                {"id": "key", "type": "promptString", "description": "API key", "password": true},
                {"id": "region", "type": "pickString", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"},
                {"id": "run", "type": "command", "command": "x"},
            ],
            "servers": {"s": {"url": "https://x//y", /* not a comment: // */ "headers": {"K": "${input:key}",},},},
            }""",
            FILE,
        )
        assert file.servers["s"].settings.url == "https://x//y"
        assert file.inputs == {
            "key": ServerInput(id="key", description="API key", is_password=True),
            "region": ServerInput(id="region", default="eu", options=("eu", "us")),
        }

    @pytest.mark.parametrize(("text", "words"), [
        ("{", "is not JSON"),
        ("[]", "defines no MCP servers"),
        ('{"tools": {}}', "defines no MCP servers"),
        ('{"mcpServers": []}', "must be an object with one entry per server, not an array"),
    ])  # fmt: skip
    def test_a_file_of_something_else(self, text: str, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            parse_server_file(text, FILE)

    @pytest.mark.parametrize("part", ["/* ", '"\\"', "/*/", ", "])
    def test_the_time_to_read_grows_with_the_size(self, part: str) -> None:
        with pytest.raises(UsageError, match="not JSON"):  # quadratic, this would take minutes
            parse_server_file(part * (250_000 // len(part)), FILE)
        assert parse_env_file(f"A=b{' ' * 250_000}c") == {"A": f"b{' ' * 250_000}c"}

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="No such file"):
            read_server_file(tmp_path / "none")
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        with pytest.raises(UsageError, match="not UTF-8"):
            read_server_file(tmp_path / "binary")
        (tmp_path / "large").write_bytes(b" " * 300_000)
        with pytest.raises(UsageError, match="larger than 256,000"):
            read_server_file(tmp_path / "large", is_project=True)
        (tmp_path / "large").write_text(
            json.dumps({"history": "x" * 300_000, "mcpServers": {"s": {"command": "x"}}})
        )
        assert list(read_server_file(tmp_path / "large").servers) == ["s"], "such as ~/.claude.json"

    @given(ENTRIES)
    @example({"command": "x"})
    @example({"url": "https://x", "type": "http"})
    @example({"command": "x", "url": "https://x"})
    @example({})
    def test_any_entry_is_read_or_has_a_problem(self, entry: Any) -> None:
        document = {"mcpServers": {"s": entry}, "inputs": entry}
        file = parse_server_file(json.dumps(document), FILE)
        server = file.servers["s"]
        has_one_address = bool(server.settings.command) != bool(server.settings.url)
        assert has_one_address or server.problem
        assert server.problem == "" or server.problem.startswith(f"{FILE}: s ")

    def test_env_files(self) -> None:
        text = "# a comment\nexport A=1\nB = \"two # words\\n\"\nC='$x'\nD=plain # comment\n\nnot a line\nE="
        assert parse_env_file(text) == {"A": "1", "B": "two # words\n", "C": "$x", "D": "plain", "E": ""}


def targets_of(catalog: ServerCatalog) -> dict[str, str]:
    return {entry.name: entry.target for entry in catalog.servers}


def write_project(home: Home, name: str, **servers: Any) -> None:
    file = home.project / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"servers" if ".vscode" in name else "mcpServers": servers}))


class TestPlaces:
    def test_settings(self, home: Home) -> None:
        configuration = home.read(
            '[mcp.servers.a]\ncommand = "x"\nargs = ["-y", "b c"]\n[mcp.servers.b]\nurl = "https://x"'
        )
        catalog = find_servers(configuration, directory=home.project)
        assert targets_of(catalog) == {"a": "x -y 'b c'", "b": "https://x"}
        assert [(entry.is_project, entry.is_sandboxed) for entry in catalog.servers] == [(False, False)] * 2
        assert catalog.servers[0].origin == os.environ["TOOLGLOT_CONFIG"]

    def test_a_project_needs_trust(self, home: Home) -> None:
        write_project(home, ".mcp.json", json={"command": "x"})
        project = '[mcp.servers.toml]\ncommand = "y"'
        configuration = home.read("", project, trusted=False)
        catalog = find_servers(configuration, directory=home.project)
        assert targets_of(catalog) == {}
        assert [(entry.name, entry.settings.command) for entry in catalog.withheld] == [
            ("json", "x"),
            ("toml", "y"),
        ]
        assert [withheld.key for withheld in configuration.withheld] == ["mcp.servers.toml.command"]
        trust_directory(home.project)
        catalog = find_servers(home.read("", project), directory=home.project)
        assert targets_of(catalog) == {"json": "x", "toml": "y"}
        assert all(entry.is_project and entry.is_sandboxed for entry in catalog.servers)
        assert catalog.withheld == ()

    def test_files_of_the_project_are_found_from_below(self, home: Home) -> None:
        for number, name in enumerate((".cursor/mcp.json", ".vscode/mcp.json", ".mcp.json")):
            write_project(home, name, same={"command": f"x{number}"}, **{f"s{number}": {"command": "y"}})
        (home.project / "a" / "b").mkdir(parents=True)
        catalog = find_servers(home.read(trusted=True), directory=home.project / "a" / "b", trusted=True)
        assert targets_of(catalog) == {"same": "x2", "s2": "y", "s1": "y", "s0": "y"}
        assert catalog.servers[0].directory == home.project
        assert len(catalog.notes) == 2
        assert (
            f"the MCP server same is in {home.project}/.mcp.json and in {home.project}/.vscode/mcp.json"
            in catalog.notes[0]
        )
        off = home.read("[mcp]\nproject_files = false", trusted=True)
        assert targets_of(find_servers(off, directory=home.project, trusted=True)) == {}

    def test_a_broken_file_of_the_project_is_told(self, home: Home) -> None:
        (home.project / ".mcp.json").write_text("{")
        (home.project / ".vscode").mkdir()
        write_project(home, ".vscode/mcp.json", ok={"command": "x"})
        catalog = find_servers(home.read(), directory=home.project, trusted=True)
        assert targets_of(catalog) == {"ok": "x"}
        assert "is not JSON" in catalog.notes[0]
        assert "its servers are left out" in catalog.notes[0]
        assert find_servers(home.read(), directory=home.project, trusted=False).notes == ()

    def test_which_of_several_counts(self, home: Home, tmp_path: Path) -> None:
        write_project(home, ".mcp.json", s={"command": "project"}, only={"command": "project"})
        configuration = home.read('[mcp.servers.s]\ncommand = "user"')
        catalog = find_servers(configuration, directory=home.project, trusted=True)
        assert targets_of(catalog) == {"only": "project", "s": "user"}
        assert "s is in" in catalog.notes[0]
        assert ".mcp.json: the first is used" in catalog.notes[0]
        flag = tmp_path / "flag.json"
        flag.write_text('{"mcpServers": {"s": {"command": "flag"}}}')
        catalog = find_servers(configuration, files=[flag], directory=home.project, trusted=True)
        assert targets_of(catalog) == {"only": "project", "s": "flag"}
        assert catalog.servers[1].is_project is False
        with pytest.raises(UsageError, match="No such file"):
            find_servers(configuration, files=[tmp_path / "none"])

    def test_settings_change_a_server_of_a_file(self, home: Home) -> None:
        write_project(home, ".mcp.json", s={"command": "x", "env": {"A": "1", "B": "2"}})
        user = (
            '[mcp.servers.s]\nsandbox = false\ntrust = true\nenv.B = "3"\n[mcp.servers.none]\nenabled = false'
        )
        catalog = find_servers(home.read(user), directory=home.project, trusted=True)
        (entry,) = catalog.servers
        assert (entry.settings.trust, entry.is_sandboxed, entry.is_project) == (True, False, True)
        assert (entry.resolve().trust, entry.resolve().sandbox) == (True, False)
        assert entry.settings.env == {"A": "1", "B": "3"}
        assert catalog.notes == (
            "mcp.servers.none has neither a command nor a url, and no project file defines that server",
        )

    def test_a_project_that_takes_a_name_gets_no_secrets_of_yours(self, home: Home) -> None:
        user = (
            '[mcp.servers.s]\nurl = "https://mine"\nheaders.Authorization = "Bearer 12345678"\ntrust = true'
        )
        project = '[mcp.servers.s]\nurl = "https://theirs"'
        (entry,) = find_servers(home.read(user, project, trusted=True), directory=home.project).servers
        assert non_default_fields(entry.settings) == {"url": "https://theirs"}
        (entry,) = find_servers(home.read(user, project, trusted=False), directory=home.project).servers
        assert (entry.settings.url, entry.is_project) == ("https://mine", False)

    def test_a_project_that_changes_a_server_of_yours_makes_it_the_projects(self, home: Home) -> None:
        user, project = '[mcp.servers.s]\ncommand = "x"\ntrust = true', '[mcp.servers.s]\nargs = ["--evil"]'
        catalog = find_servers(home.read(user, project, trusted=True), directory=home.project)
        (entry,) = catalog.servers
        assert (entry.target, entry.is_sandboxed, entry.resolve().trust) == ("x --evil", True, False)
        assert (
            "mcp.servers.s.trust was ignored, because toolglot.toml defines or changes this server"
            in catalog.notes[0]
        )

    @pytest.mark.parametrize("trusted", [True, False])
    @pytest.mark.parametrize("project", [
        '[mcp.servers.s]\ncommand = "x"\ntrust = true',
        "[mcp.servers.s]\ntrust = true",  # of the server in .mcp.json
        "[mcp.servers.mine]\ntrust = true",  # of the user's server
    ])  # fmt: skip
    def test_no_project_trusts_its_own_server(self, home: Home, project: str, trusted: bool) -> None:
        write_project(home, ".mcp.json", s={"command": "y", "trust": True, "autoApprove": ["*"]})
        user = '[mcp.servers.mine]\ncommand = "z"'
        catalog = find_servers(
            home.read(user, project, trusted=trusted), directory=home.project, trusted=trusted
        )
        entries = [*catalog.servers, *catalog.withheld]
        assert {entry.name for entry in entries} == {"s", "mine"}
        assert not any(entry.settings.trust for entry in entries)
        assert any("trust was ignored" in note for note in catalog.notes) == trusted

    def test_a_server_without_sense_does_not_break_the_configuration(self, home: Home) -> None:
        configuration = home.read(
            '[mcp.servers.a]\ncommand = "x"\nurl = "https://x"\n[mcp.servers.b]\ncommand = "y"'
        )
        bad, good = find_servers(configuration, directory=home.project).servers
        with pytest.raises(UsageError, match=r"the MCP server a .* is not valid: .*both are set"):
            bad.resolve()
        assert good.resolve().command == "y"


def entry(directory: Path, *, is_project: bool = False, **fields: Any) -> ServerEntry:
    inputs, env_file = fields.pop("inputs", {}), fields.pop("env_file", "")
    return ServerEntry(
        name="s",
        settings=msgspec.convert(fields, ServerSettings),
        origin="a file",
        directory=directory,
        is_project=is_project,
        env_file=env_file,
        inputs=inputs,
        forbidden_variables=frozenset({"OPENAI_API_KEY"}) if is_project else frozenset(),
    )


class TestVariables:
    def test_variables_and_places(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_TOKEN", "token-12345678")
        monkeypatch.setenv("EMPTY", "")
        server = entry(
            tmp_path,
            command="${workspaceFolder}/bin${/}server",
            args=[
                "${env:GITHUB_TOKEN}",
                "${NONE:-default}",
                "${EMPTY:-x}",
                "${EMPTY}",
                "$HOME",
                "${workspaceFolderBasename}",
            ],
            env={"T": "a ${GITHUB_TOKEN}"},
            cwd="sub",
        ).resolve()
        assert server == McpServer(
            command=f"{tmp_path}/bin{os.sep}server",
            args=("token-12345678", "default", "x", "", "$HOME", tmp_path.name),
            env={"T": "a token-12345678"},
            cwd=f"{tmp_path}/sub",
            sandbox=False,
        )
        assert "token-12345678" in secret_values()

    def test_headers_are_secrets(self, tmp_path: Path) -> None:
        entry(tmp_path, url="https://x", headers={"Authorization": "Bearer header-secret-1"}).resolve()
        entry(tmp_path, command="x", env={"DB_PASSWORD": "env-secret-1", "MODE": "production"}).resolve()
        assert {"header-secret-1", "env-secret-1"} <= secret_values()
        assert "production" not in secret_values()

    @pytest.mark.parametrize(("text", "words"), [
        ("${NOT_SET_AT_ALL}", "needs the variable NOT_SET_AT_ALL, which is not set"),
        ("${command:x}", "uses \\${command:x}, which is not supported"),
        ("${input:none}", "which its file does not define"),
        ("${input:key}", r"needs an input \(API key\): start toolglot chat"),
    ])  # fmt: skip
    def test_what_cannot_be_filled_in(self, tmp_path: Path, text: str, words: str) -> None:
        inputs = {"key": ServerInput(id="key", description="API key")}
        with pytest.raises(UsageError, match=words):
            entry(tmp_path, command="x", args=[text], inputs=inputs).resolve()

    def test_inputs_are_asked_once(self, tmp_path: Path) -> None:
        asked: list[str] = []

        def ask(wanted: ServerInput) -> str:
            asked.append(wanted.id)
            return "answer-12345678"

        inputs = {"key": ServerInput(id="key", is_password=True), "d": ServerInput(id="d", default="eu")}
        server = entry(tmp_path, command="x", args=["${input:key}", "${input:key}"], inputs=inputs)
        assert server.resolve(ask).args == ("answer-12345678",) * 2
        assert asked == ["key"]
        assert "answer-12345678" in secret_values()
        assert entry(tmp_path, command="x", args=["${input:d}"], inputs=inputs).resolve().args == ("eu",)

    def test_a_project_gets_no_key_of_a_provider(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-12345678")
        assert entry(tmp_path, command="x", args=["${OPENAI_API_KEY}"]).resolve().args == ("sk-12345678",)
        with pytest.raises(
            UsageError, match=r"requests OPENAI_API_KEY, which is a provider key: add it to policy\.keep_env"
        ):
            entry(tmp_path, is_project=True, command="x", args=["${OPENAI_API_KEY}"]).resolve()

    def test_a_project_gets_no_key_that_you_have_configured(self, home: Home) -> None:
        user = '[providers.openai]\nkey_env = "MY_LLM_KEY"\n[builtin]\nbrave_key_env = "MY_SEARCH_KEY"'
        for name in ("MY_LLM_KEY", "MY_SEARCH_KEY", "TAVILY_API_KEY", "openai_api_key"):
            write_project(home, ".mcp.json", s={"url": "https://x", "headers": {"A": f"${{{name}}}"}})
            (server,) = find_servers(home.read(user), directory=home.project, trusted=True).servers
            with pytest.raises(UsageError, match=f"requests {name}, which is a provider key"):
                server.resolve()

    def test_an_env_file(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("A=1\nB=2\n")
        server = entry(tmp_path, command="x", env={"B": "3"}, env_file="${workspaceFolder}/.env").resolve()
        assert server.env == {"A": "1", "B": "3"}
        with pytest.raises(UsageError, match=r"env file .* cannot be read: No such file"):
            entry(tmp_path, command="x", env_file="none").resolve()

    @pytest.mark.parametrize(("name", "words"), [
        ("../secret.env", "not in the project's directory"),
        ("link", "not in the project's directory"),
        ("pipe", "not a regular file"),
        ("large", "larger than 256,000 bytes"),
    ])  # fmt: skip
    def test_a_project_reads_no_other_files_of_yours(self, tmp_path: Path, name: str, words: str) -> None:
        project = tmp_path / "project"
        project.mkdir()
        (tmp_path / "secret.env").write_text("A=1")
        (project / "link").symlink_to(tmp_path / "secret.env")
        os.mkfifo(project / "pipe")
        (project / "large").write_bytes(b"#" * 256_001)
        with pytest.raises(UsageError, match=words):
            entry(project, is_project=True, command="x", env_file=name).resolve()
        assert entry(project, command="x", env_file="../secret.env").resolve().env == {"A": "1"}

    def test_an_env_file_of_a_project_has_no_key_of_a_provider(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("A=1\nOPENAI_API_KEY=sk-12345678\n")
        assert entry(tmp_path, is_project=True, command="x", env_file=".env").resolve().env == {"A": "1"}

    def test_what_a_program_replaces_itself(self, tmp_path: Path) -> None:
        assert (
            entry(tmp_path, command="sh", args=["-c", "echo $${1} $$ $${x.y}"]).resolve().args[1]
            == "echo ${1} $$ ${x.y}"
        )
        with pytest.raises(UsageError, match=r"or \$\$\{1\} if the program itself"):
            entry(tmp_path, command="sh", args=["-c", "echo ${1}"]).resolve()

    def test_who_trusts_a_server_is_told_which_variables_it_gets(self, tmp_path: Path) -> None:
        headers = {
            "A": "Bearer ${AWS_SECRET_ACCESS_KEY}",
            "B": "${env:B:-x} ${input:i} ${workspaceFolder} $${C}",
        }
        server = entry(tmp_path, is_project=True, url="https://x", headers=headers)
        assert server.claim == "https://x (receives your variables AWS_SECRET_ACCESS_KEY, B)"
        assert entry(tmp_path, command="x").claim == "x"
        oauth = {"client_id": "${A_TOKEN}", "client_secret": "${B_TOKEN}"}
        assert (
            entry(tmp_path, url="https://x", oauth=oauth).claim
            == "https://x (receives your variables A_TOKEN, B_TOKEN)"
        )
        assert (
            entry(tmp_path, command="x", cwd="${C}", env_file="${D}").claim
            == "x (receives your variables C, D)"
        )

    def test_a_url_may_be_a_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SERVER", "https://x")
        assert entry(tmp_path, url="${SERVER}/mcp").resolve().url == "https://x/mcp"
        monkeypatch.setenv("SERVER", "ftp://x")
        with pytest.raises(UsageError, match="must begin with http://"):
            entry(tmp_path, url="${SERVER}/mcp").resolve()

    def test_what_is_shown_has_no_secrets(self, tmp_path: Path) -> None:
        assert (
            "sk-abc"
            not in entry(tmp_path, command="x", args=["--api-key", "sk-abc12345678901234567890"]).target
        )


def test_servers_in_python(home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "${NOT_SET_AT_ALL}"}, "c": 5}}')
    assert load_servers(file) == {"a": McpServer(command="x", sandbox=False)}
    assert "needs the variable NOT_SET_AT_ALL" in caplog.text
    assert "c must be an object" in caplog.text
    home.read('[mcp.servers.u]\nurl = "https://x"')
    assert list(load_servers(directory=home.project)) == ["u"]
