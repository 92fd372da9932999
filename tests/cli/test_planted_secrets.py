"""Secrets planted in every place where an MCP server's configuration has them, and searched for in what each
command writes.

Nobody can be asked not to write a key into an argument. `toolglot doctor` is attached to reports, so it shows
none."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cli_kit import run_cli

from toolglot.config.trust import trust_directory

# what is planted -> the fields of a server, with {} for the secret
PLACES: dict[str, dict[str, Any]] = {
    "an option and a word": {"command": "serve", "args": ["-y", "--api-key", "{}"]},
    "an option with an underscore": {"command": "serve", "args": ["--api_key", "{}"]},
    "a long option": {"command": "serve", "args": ["--my-very-long-name-of-a-service-token", "{}"]},
    "a value with spaces": {"command": "serve", "args": ["--password", "{} and more"]},
    "user and password": {"command": "serve", "args": ["--auth", "me:{}"]},
    "an option with =": {"command": "serve", "args": ["--token={}"]},
    "a variable as an argument": {"command": "docker", "args": ["run", "-e", "API_KEY={}"]},
    "a header as an argument": {
        "command": "mcp-remote",
        "args": ["https://x/mcp", "--header", "Authorization: Bearer {}"],
    },
    "a header in words": {
        "command": "mcp-remote",
        "args": ["https://x/mcp", "Authorization:", "Bearer", "{}"],
    },
    "a command in an argument": {"command": "sh", "args": ["-c", "exec serve --api-key {} --verbose"]},
    "a URL as an argument": {"command": "serve", "args": ["postgres://me:{}@localhost/db"]},
    "JSON as an argument": {"command": "serve", "args": ['{"apiKey": "{}"}']},
    "a variable": {"command": "serve", "env": {"ANYTHING": "{}"}},
    "a header": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Anything": "{}"}},
    "the user of a URL": {"url": "http://me:{}@127.0.0.1:9/mcp"},
    "the query of a URL": {"url": "http://127.0.0.1:9/mcp?api_key={}&x=1"},
    "the secret of a client": {"url": "http://127.0.0.1:9/mcp", "oauth": {"client_secret": "{}"}},
}
SHOWING = (
    ("doctor",),
    ("doctor", "--json"),
    ("config", "show"),
    ("config", "show", "--json"),
    ("mcp", "list"),
    ("mcp", "list", "--json"),
)
STARTING = (
    ("mcp", "list", "--start"),
    ("mcp", "test", "planted-0"),
    ("tools",),
    ("run", "-m", "simulator", "-vv", "--log-file", "log.jsonl", "say hi"),
)


@pytest.fixture(autouse=True)
def home(isolated_home: Path) -> Path:
    return isolated_home


def secret_of(location: str) -> str:
    return f"planted{list(PLACES).index(location)}Xq92Lm"


def fill(value: Any, secret: str) -> Any:
    """Put the secret into all texts of a value."""
    return json.loads(json.dumps(value).replace("{}", secret))


def fill_places(kind: str = "") -> dict[str, dict[str, Any]]:
    """The servers `planted-0` and so on, each with its own secret."""
    return {
        f"planted-{number}": fill(fields, secret_of(location))
        for number, (location, fields) in enumerate(PLACES.items())
        if kind in fields or not kind
    }


def to_toml(servers: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for name, fields in servers.items():
        lines += [f"[mcp.servers.{name}]", "start_timeout = 3"]
        # In JSON, only a colon between a key and its value differs from TOML.
        lines += [
            f"{field} = {json.dumps(value, separators=(', ', ' = '))}" for field, value in fields.items()
        ]
    return "\n".join(lines)


def find_leaks(home: Path, *commands: tuple[str, ...]) -> list[tuple[str, str]]:
    """The commands that show a secret, and where it was planted."""
    leaks: list[tuple[str, str]] = []
    for words in commands:
        outcome = run_cli(*words, stdin="/mcp\n")
        log = home / "log.jsonl"
        written = outcome.out + outcome.err + (log.read_text() if log.exists() else "")
        leaks += [(" ".join(words), location) for location in PLACES if secret_of(location) in written]
    return leaks


def test_no_command_shows_a_secret_of_the_users_servers(home: Path) -> None:
    (home / "user" / "config.toml").write_text(to_toml(fill_places()))
    assert "planted-16" in run_cli("doctor").out
    tests = [
        ("mcp", "test", f"planted-{number}")
        for number, fields in enumerate(PLACES.values())
        if "url" in fields
    ]
    assert find_leaks(home, *SHOWING, *tests) == []


@pytest.mark.parametrize("is_trusted", [False, True], ids=["untrusted", "trusted"])
def test_no_command_shows_a_secret_of_a_projects_servers(home: Path, is_trusted: bool) -> None:
    (home / "toolglot.toml").write_text(to_toml(fill_places("command")))
    if is_trusted:
        trust_directory(home)
    assert "planted-0" in run_cli("doctor").out
    assert find_leaks(home, *SHOWING, ("trust", "."), ("trust", "--remove", ".")) == []


def test_no_command_shows_a_secret_of_a_projects_files(home: Path) -> None:
    (home / ".mcp.json").write_text(json.dumps({"mcpServers": fill_places("command")}))
    assert "planted-0" in run_cli("mcp", "list").out
    assert find_leaks(home, *SHOWING, *STARTING, ("chat", "-m", "simulator"), ("trust", ".")) == []


def test_servers_that_repeat_their_arguments_give_nothing_away(home: Path) -> None:
    script = 'echo "wrong: $*" >&2; exit 1'
    servers = {
        name: {"command": "sh", "args": ["-c", script, "sh", *fields["args"]]}
        for name, fields in fill_places("args").items()
    }
    (home / "user" / "config.toml").write_text(to_toml(servers))
    assert "wrong: " in run_cli("mcp", "test", "planted-0").out
    assert find_leaks(home, *SHOWING, *STARTING) == []


@pytest.mark.parametrize("argument", ["${PLANTED_TOKEN}", "--x=${PLANTED_TOKEN}"])
def test_an_argument_from_a_variable_is_hidden_where_the_server_repeats_it(home: Path, argument: str) -> None:
    secret = "planted4Xq92Lm"
    fields = {"command": "sh", "args": ["-c", 'echo "wrong: $0" >&2; exit 1', argument]}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"planted": fields}}))
    outcome = run_cli("mcp", "test", "planted", "--mcp-config", "mcp.json", PLANTED_TOKEN=secret)
    assert "wrong: " in outcome.out
    assert secret not in str(outcome)
