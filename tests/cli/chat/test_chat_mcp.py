"""MCP servers in a chat."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_harness import talk

from toolglot.cli.chat.app import Chat
from toolglot.cli.chat.forms import fill_form
from toolglot.cli.chat.mcp_servers import ChatServers
from toolglot.cli.servers import CliServers
from toolglot.config.mcp_servers import ServerCatalog, ServerEntry
from toolglot.config.settings import ServerSettings, Settings
from toolglot.values.messages import Text

SERVER = str(Path(__file__).parents[2] / "mcp" / "scripted_server.py")
LYING = str(Path(__file__).parents[2] / "mcp" / "servers" / "lying.py")
MakeServers = Callable[..., CliServers]


@pytest.fixture
def make_servers(tmp_path: Path) -> Iterator[MakeServers]:
    instances: list[CliServers] = []

    def make(**options: ServerSettings) -> CliServers:
        local = ServerSettings(command=sys.executable, args=(SERVER, str(tmp_path)), trust=True)
        entries = [
            ServerEntry(name=name, settings=settings, origin="a test", directory=tmp_path)
            for name, settings in {"local": local, **options}.items()
        ]
        instances.append(CliServers(ServerCatalog(servers=tuple(entries)), Settings(), root=tmp_path))
        return instances[-1]

    yield make
    for servers in instances:
        servers.close()


def user_texts(chat: Chat) -> list[str]:
    return [
        block.text
        for message in chat.agent.conversation
        if message.role == "user"
        for block in message.blocks
        if isinstance(block, Text)
    ]


def test_the_first_prompt_waits_for_servers_and_uses_their_tools(make_servers: MakeServers) -> None:
    servers = make_servers(
        bad=ServerSettings(command="no-such-program"), needy=ServerSettings(command="${NOT_SET_AT_ALL}")
    )
    over = talk('call mcp__local__echo {"text": "hello"}', "/mcp", "/mcp local", "/context", servers=servers)
    assert over.has("waiting for MCP servers: ")
    assert over.has("mcp__local__echo: hello")
    assert over.has("MCP server bad cannot be used: ")
    assert over.has("the MCP server needy needs the variable NOT_SET_AT_ALL")
    assert over.has(
        "local  ready, ", " tools, 1 prompt, 2 resources · scripted 1.2 · MCP 2025-11-25 · trusted"
    )
    assert over.has("bad  failed: ")
    assert over.has("/local:explain topic", "Explain it.")
    assert over.has("@local:note://1", "one")
    assert over.has("MCP server local: ", " tools, about")


def test_prompts_are_commands(make_servers: MakeServers) -> None:
    servers = make_servers()
    servers.wait()
    over = talk(
        "/local:explain the universe",
        "/local:explain topic=cats",
        "/local:explain",
        "/local:explan x",
        servers=servers,
    )
    assert user_texts(over.chat) == ["Explain the universe.", "Explain cats."]
    assert over.has("the prompt needs 'topic': /local:explain topic")
    assert over.has("prompt of local", "explan", "did you mean 'explain'")
    assert {"/local:explain", "/mcp"} <= {*over.chat.completions("/")}
    assert next(iter(over.chat.completions("look at @"))) == "@local:note://1"  # files come after it
    assert list(over.chat.completions("/mcp ")) == ["local"]


def test_names_of_servers_are_typed_as_one_word(make_servers: MakeServers, tmp_path: Path) -> None:
    settings = ServerSettings(command=sys.executable, args=(SERVER, str(tmp_path)))
    servers = make_servers(**{"GitHub MCP": settings, "@a/b": settings})
    servers.wait()
    over = talk(
        "/GitHub-MCP:explain cats",
        "/a/b:explain dogs",
        "see @GitHub-MCP:note://1",
        "/mcp GitHub MCP",
        servers=servers,
    )
    assert user_texts(over.chat) == [
        "Explain cats.",
        "Explain dogs.",
        "see [note://1]",
        "[note://1]\nthe note",
    ]
    assert over.has("/GitHub-MCP:explain topic")
    assert {"@GitHub-MCP:note://1", "@a/b:note://1"} <= {*over.chat.completions("look at @")}


def test_a_server_that_is_disabled_has_no_resources(make_servers: MakeServers) -> None:
    servers = make_servers(off=ServerSettings(command="x", enabled=False))
    servers.wait()
    over = talk("see @off:note://1", servers=servers)
    assert over.has("off is disabled in the settings")


def test_resources_are_attachments(make_servers: MakeServers) -> None:
    servers = make_servers()
    servers.wait()

    def paste(chat: Chat) -> str:
        chat.reader.inserted = ["@local:note://1"]  # type: ignore[misc]
        return "and @local:note://1"

    over = talk("what is @local:note://1?", "mail me@local:x and @other:note://1", paste, servers=servers)
    assert user_texts(over.chat)[:2] == ["what is [note://1]?", "[note://1]\nthe note"]
    assert user_texts(over.chat)[2] == "mail me@local:x and @other:note://1"
    assert over.has("send the resource note://1 from the MCP server local")
    assert "the note" not in user_texts(over.chat)[3:]
    assert over.has("attached: note://1")


def test_a_server_asks_the_user(make_servers: MakeServers, tmp_path: Path) -> None:
    servers = make_servers()
    servers.wait()
    over = talk(
        "call mcp__local__ask {}",
        "yes",
        "Ada",
        "-",
        "green",
        "call mcp__local__ask {}",
        "no",
        servers=servers,
    )
    assert over.has("? local asks: ")
    assert over.has("name (string, required): Your name")
    assert over.has("your answer will be sent to this MCP server")
    assert [question for question in over.reader.questions if question.startswith("  name")] == ["  name: "]
    assert "  age [30]: " in over.reader.questions
    assert over.has("Ada")
    assert over.has("decline")


def test_changes_and_failures_are_told(make_servers: MakeServers, monkeypatch: pytest.MonkeyPatch) -> None:
    servers, notified, notify = make_servers(), threading.Event(), ChatServers.notify
    servers.wait()

    def note(self: ChatServers, text: str) -> None:
        notify(self, text)
        notified.set()

    def wait_for_change(chat: Chat) -> str:
        assert notified.wait(30)
        return "/mcp"

    monkeypatch.setattr(ChatServers, "notify", note)
    lines = [
        "call mcp__local__change {}",
        wait_for_change,
        "/mcp restart local",
        "/mcp restart none",
        "/mcp none",
    ]
    over = talk(*lines, servers=servers)
    assert over.has("MCP server local: ", "added or changed")
    assert over.has("local: ready, ")
    assert over.has("MCP server", "none", "local")


@pytest.mark.parametrize("mode", ["later", "rug", "schema"])
def test_a_tool_that_changes_is_asked_about_again(
    mode: str, make_servers: MakeServers, tmp_path: Path
) -> None:
    """A server whose tool was always allowed replaces it: the next question shows what is different."""
    changed, notify = threading.Event(), ChatServers.notify
    lying = ServerSettings(command=sys.executable, args=("-I", "-S", LYING, str(tmp_path), mode))
    servers = make_servers(lying=lying)
    servers.wait()

    def note(self: ChatServers, text: str) -> None:
        notify(self, text)
        changed.set()

    def wait_for_change(chat: Chat) -> str:
        assert changed.wait(30)
        return 'call mcp__lying__lookup {"note": "second"}'

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChatServers, "notify", note)
        over = talk(
            'call mcp__lying__lookup {"note": "first"}', "always", wait_for_change, "no", servers=servers
        )
    assert (tmp_path / "calls").read_text() == '{"note": "first"}\n'
    text = "".join(line.replace("↪", "").replace(" ", "") for line in over.lines)
    assert text.count("?mcp__lying__lookupwantstorun(network,read,write)") == 2
    assert text.count("ithaschangedsinceyoualwaysallowedit(its") == 1
    assert {
        "later": '"readOnlyHint":true',
        "rug": 'itsdescriptionwas"Lookawordup.",now"ItDELETESeverything.\\n?shell',
        "schema": '"password":{"type":"string"}',
    }[mode] in text


def test_without_servers() -> None:
    over = talk("/mcp", "/other:prompt x", "@other:uri/x hi")
    assert over.has("no MCP servers are configured: add one with toolglot mcp add")
    assert over.chat.mcp.describe_tokens() == []


async def test_values_of_forms() -> None:
    typed = iter(["", "Ada", "", "yes", "maybe", "no", "a, b", "seven", "7"])

    async def read(question: str) -> str:
        questions.append(question)
        return next(typed)

    questions: list[str] = []
    notes: list[str] = []
    kinds: dict[str, dict[str, Any]] = {
        "name": {"type": "string"},
        "empty": {"type": "string", "default": "x"},
        "yes": {"type": "boolean"},
        "maybe": {"type": "boolean", "default": False},
        "list": {"type": "array", "default": ["x", "y"]},
        "count\n> fake": {"type": "integer"},
    }
    values = await fill_form(
        {"properties": kinds, "required": ["name"]}, read, lambda text, style: notes.append(text.strip())
    )
    assert values == {"name": "Ada", "yes": True, "maybe": False, "list": ["a", "b"], "count\n> fake": "7"}
    assert questions[:4] == ["  name: ", "  name: ", "  empty [x]: ", "  yes [-]: "]
    assert {"  maybe [no]: ", "  list [x, y]: "} <= {*questions}
    assert "\n" not in questions[-1] + notes[-1]
    assert [note.split(" ")[0] for note in notes[:2]] == ["name", "$.maybe:"]
    assert len(notes) == 3
