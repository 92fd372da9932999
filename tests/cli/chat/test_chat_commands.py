"""The slash commands of a chat. Whatever is typed, the chat continues."""

import asyncio
import errno
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from chat_harness import Talk, add, talk, wipe
from tests.cli.cli_kit import Patch

from toolglot import Agent, coding_tools
from toolglot.cli.chat.app import Chat
from toolglot.cli.chat.commands import COMMANDS, find_command
from toolglot.cli.chat.spending import Spending
from toolglot.config.instructions import Instructions
from toolglot.config.settings import PolicySettings
from toolglot.engine.signin import environment
from toolglot.errors import ToolglotError, UnknownName, UsageError
from toolglot.loop.agent.agent import compact
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.tool import tool
from toolglot.values.events import ContextTruncated, ReplyDone
from toolglot.values.messages import Conversation, Media, Reply, Text, Usage, assistant, load, user

SAY = "say hello"


@tool(effects="read")
def many_lines(count: int) -> str:
    """Return many lines."""
    return "\n".join(f"line {number}" for number in range(count))


@pytest.mark.parametrize(
    ("text", "name", "argument"),
    [
        ("/help", "help", ""),
        ("/model  openai:gpt-5.1 ", "model", "openai:gpt-5.1"),
        ("/q", "quit", ""),
        ("exit", "quit", ""),
        (" quit ", "quit", ""),
        ("exit now", None, ""),
        ("/too x", "tools", "x"),
        ("/save my chat.jsonl", "save", "my chat.jsonl"),
        *((text, None, "") for text in ("hello", "//help", "/etc/hosts is odd", "/usr", " /help", "/a/b")),
    ],
)
def test_command_is_found(text: str, name: str | None, argument: str) -> None:
    assert find_command(text) == (None if name is None else (COMMANDS[name], argument))


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("/qiut", "'/quit'"),
        ("/mod x", "/mode"),
        ("/modle", "'/model'"),
        ("/s", "/save"),
        ("/zzzz", "/help"),
        ("/", "/help"),
    ],
)
def test_unknown_command_is_an_error_with_suggestions(text: str, suggestion: str) -> None:
    with pytest.raises(UnknownName, match=suggestion):
        find_command(text)


COMPLETIONS = {
    "anthropic/claude-opus-5": {"Read", "read", "Bash", "shell"},
    "openai-responses/gpt-5.5": {"exec_command", "shell"},
}
LONG, NUL = "x" * 5_000, "nul\x00"


@pytest.mark.parametrize(
    "line",
    [
        *(f"/{argument}" for argument in (LONG, "é" * 300, NUL, f"{NUL}/x")),
        *(
            f"/{name} {argument}"
            for name in ("attach", "load", "save")
            for argument in ("~nosuchuser/file", NUL, LONG)
        ),
        *("/attach", "/load", "/show ²", "/show -1", "/show 0", "/show 99", "/show"),
        *("/model :", "/model zzz:y", "/model simulator:zzz", "/model openai:", "/tools zzz"),
        *("hello @~nosuchuser", f"hello @{NUL}x", "~nosuchuser"),
    ],
)
def test_chat_continues_after_any_line(line: str) -> None:
    over = talk("think first\nsay x", line, SAY)
    assert over.code == 0
    assert over.has("hello")


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["think well\nsay x", "/show abc"], ["there is no folded text 'abc'"]),
        (["think one\nsay x", "/show 7"], ["there is no folded text '7'"]),
        (["/show"], ["nothing has been folded yet"]),
        (["/model simulator:openai-chat"], ["nothing in the conversation is lost"]),
        (["think hm\nsay x"], ["1 word ·"]),
        (["/tools"], ["add   Add two numbers."]),
        (["/tools"], ["wipe", "asks first"]),
        (["/tools"], ["2 tools"]),
        (["/tools w*"], ["1 tool"]),
        (["/tools add"], ['"name": "add"']),
        (["/tools add"], ['"description": "Add two numbers."']),
        (["/tools ad"], ["unknown tool 'ad'", "'add'"]),
        (["/load nowhere.jsonl"], ["cannot read the conversation 'nowhere.jsonl'"]),
        (["/attach nowhere"], ["cannot read attachment 'nowhere'"]),
        ([SAY, "/context"], ["tokens of", "in the next request"]),
        (
            [SAY, "/context"],
            ["context window: 200,000 tokens, 1", " available for a request; when it is full: "],
        ),
        ([SAY, 'call add {"a": 1, "b": 2}', "/undo"], ["removed 'call add", "3 messages after it"]),
        ([SAY, 'call add {"a": 1, "b": 2}', "/undo"], ["the effects of its tools are not undone"]),
        ([SAY, "/undo"], ["and 1 message after it"]),
        (["/undo"], ["there is nothing to undo"]),
        ([SAY, "/new", "/undo"], ["there is nothing to undo"]),
        *(
            (["/help"], [f"/{name} {command.usage}".strip(), command.description])
            for name, command in COMMANDS.items()
        ),
    ],
)
def test_output_of_a_command(lines: list[str], shown: list[str]) -> None:
    assert talk(*lines).has(*shown)


def test_help_stays_in_its_column_on_a_narrow_terminal() -> None:
    def narrow(chat: Chat) -> str:
        chat.screen.console.width = 50
        return "/help"

    lines = talk(narrow, moves=True).lines
    [first] = [index for index, line in enumerate(lines) if line.startswith("/compact ")]
    assert lines[first + 1].startswith(" " * 16)
    assert all(len(line) < 50 for line in lines[first : first + 3])


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("openai:gpt-5.1", "$0.0084"),
        ("openai:nobody-knows-it", "price unknown"),
        ("simulator:openai/gpt-5.1", "free"),
    ],
)
def test_spending_is_summed_by_model(model: str, cost: str) -> None:
    profile = resolve_profile("openai", model.rpartition(":")[2].rpartition("/")[2])
    spending = Spending()
    for cached in (0, 500):
        spending.see(ReplyDone(Reply((), usage=Usage(2_000, 200, cached))), model, profile.price)
    assert list(spending.describe()) == [
        f"{model}: 2 requests · 4,000 tokens in (500 cached), 400 out · {cost}"
    ]
    spending.see(ContextTruncated("", 2, 9, 5, "a summary", Usage(500, 1)), model, profile.price)
    assert "3 requests · 4,500 tokens in (500 cached), 401 out" in next(spending.describe())


def test_compact_summarizes_all_but_the_last_turn() -> None:
    over = talk(
        "/compact",
        SAY,
        "/compact",
        "say bye",
        "/compact",
        "/compact",
        "/context",
        "/show 1",
        "/cost",
        "say ok",
    )
    assert (
        len([line for line in over.lines if "there is nothing to summarize before the last turn" in line])
        == 3
    )
    assert over.has("2 older messages summarized: about ", " tokens before, ", " after")
    assert over.has("2 older messages are no longer sent")
    assert over.has("summary of the older messages")
    assert over.has(": 3 requests · ")
    assert len(over.agent.conversation) == 6
    assert over.has("ok")


def test_a_compact_that_fails_omits_nothing() -> None:
    async def fail(messages: object) -> str:
        raise UsageError("no summary today")

    talked = Conversation([user("a"), assistant("b"), user("c"), assistant("d")])
    agent = Agent("simulator", summarize=fail, conversation=talked)
    with pytest.raises(ToolglotError, match="no summary today"):
        asyncio.run(compact(agent))
    assert asyncio.run(agent.context_usage()).omitted_messages == 0


def test_estimates_of_tools_follow_what_the_provider_has_counted() -> None:
    agent = Agent("simulator", tools=[add])
    before = agent.view().scale_tokens(1_000)
    agent._state.meter.calibrate(agent.view().profile, 1_000, 2_000)  # pyright: ignore[reportPrivateUsage]
    assert agent.view().scale_tokens(1_000) == 2 * before


def test_all_lines_about_the_context_follow_what_the_provider_has_counted() -> None:
    def numbers(over: Talk, word: str) -> list[int]:
        lines = [line.replace(",", "") for line in over.lines if word in line]
        return [int(re.findall(r"(\d+) tokens", line)[0]) for line in lines]

    def instruct(chat: Chat) -> str:
        chat.instructions = Instructions(files={Path("AGENTS.md"): "Be brief. " * 100})
        return "/context"

    def calibrate(chat: Chat) -> str:
        meter = chat.agent._state.meter  # pyright: ignore[reportPrivateUsage]
        meter.calibrate(chat.agent.view().profile, 1_000, 2_000)
        return "/context"

    over = talk(instruct, calibrate, defer=("all",))
    for word in ("instructions: ", "deferred"):
        before, after = numbers(over, word)
        assert abs(after - 2 * before) <= 1


def test_the_reason_of_a_deferral_is_scaled_with_it() -> None:
    tools = [tool(add.function, name=f"t{number}", description="word " * 90) for number in range(200)]
    deferral = Agent("simulator:anthropic", tools=tools).view().deferral
    assert deferral is not None
    twice = deferral.scale(2)
    assert twice.total_tokens == 2 * deferral.total_tokens
    assert twice.reason == deferral.reason.replace(
        f"{deferral.total_tokens:,}", f"{twice.total_tokens:,}"
    ).replace(f"{deferral.total_tokens / deferral.window:.0%}", f"{twice.total_tokens / deferral.window:.0%}")
    assert twice.reason != deferral.reason
    chosen = Agent("simulator", tools=tools, defer=True).view().deferral
    assert chosen is not None
    assert chosen.scale(2).reason == chosen.reason == "the agent defers them"


def test_cost_shows_each_model_and_the_total() -> None:
    over = talk("/cost", SAY, "/model simulator:gemini", SAY, 'call add {"a": 1, "b": 2}', "/new", "/cost")
    assert over.has("nothing has been sent yet")
    assert over.has("simulator:gemini/", ": 3 requests · ", "out · free")
    assert over.has("total: 4 requests · ", "out · free")


def test_clear_starts_a_new_conversation_on_a_clear_screen() -> None:
    over = talk("think well\nsay x", "/clear", "/undo", "/show", moves=True)
    assert over.has("started a new conversation")
    assert over.has("there is nothing to undo")
    assert over.has("nothing has been folded yet")
    assert "\x1b[2J" in over.drawn


def test_model_lists_models_with_keys_only(monkeypatch: Patch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GROQ_API_KEY", "k")
    over = talk("/model")
    assert over.has("models with keys: groq:llama-3.3-70b-versatile, simulator")
    assert list(over.chat.completions("/model ")) == ["groq:llama-3.3-70b-versatile", "simulator"]
    assert "anthropic:" in over.chat.completions("/model anth")


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("/load ta", ["talk.jsonl"]),
        ("/attach sub/", ["sub/inner.txt"]),
        ("/save s", ["sub/"]),
        ("read @", ["@sub/", "@talk.jsonl"]),
        ("read @sub/in", ["@sub/inner.txt"]),
        ("read @.h", ["@.hidden"]),
        ("first line\n@ta", ["@talk.jsonl"]),
        ("read @nowhere/", []),
        ("read @nul\x00/", []),
        ("mail me@ta", []),
        ("read @sub/inner.txt now", []),
    ],
)
def test_paths_are_completed(typed: str, completions: list[str], tmp_path: Path, monkeypatch: Patch) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    for name in ("talk.jsonl", ".hidden", "with blank", "with\x1bescape", "sub/inner.txt"):
        (root / name).touch()
    monkeypatch.chdir(root)
    assert list(talk().chat.completions(typed)) == completions


@pytest.mark.parametrize(
    ("line", "settings", "shown"),
    [
        ("/model", {"aliases": {"fast": "groq:llama"}}, "fast: groq:llama"),
        ("/model g", {"aliases": {"g": "simulator:gemini"}}, "switched to simulator:gemini/"),
        ("/tools", {"policy": PolicySettings(deny=("wi*",))}, "not allowed"),
        ("/tools", {"tools": []}, "no tools"),
        ("/context", {"model": "simulator:compatible/x"}, "the context window is unknown"),
        ("/context", {"defer": ("all",)}, "2 tools deferred, which saves about"),
        ("/context", {"defer": ("ad*",)}, "1 tool deferred, which saves about"),
        ("/tools", {"defer": ("wipe",)}, "deferred asks first"),
    ],
)
def test_output_depends_on_settings(line: str, settings: dict[str, Any], shown: str) -> None:
    assert talk(line, **settings).has(shown)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("//help me", "/help me"),
        ("/etc/hosts and /tmp: what are they?", "/etc/hosts and /tmp: what are they?"),
    ],
)
def test_line_with_a_slash_can_be_a_prompt(line: str, text: str) -> None:
    assert talk(line).agent.conversation[0].text == text


class TestModel:
    def test_switch_continues_the_conversation(self) -> None:
        over = talk(SAY, "/model simulator:gemini", SAY)
        assert over.has("switched to simulator:gemini/", "(gemini)", "from simulator:anthropic/")
        assert [message.role for message in over.agent.conversation] == ["user", "assistant"] * 2
        assert over.agent.model.startswith("simulator:gemini/")

    def test_equal_losses_are_one_line_with_their_number(self) -> None:
        over = talk("think deeply\nsay yes", "think deeply\nsay yes", "/model simulator:gemini")
        assert over.has("  lost: thinking (2 times): it is only sent back to the model that produced it")

    def test_only_what_the_user_has_written_is_reported(self, tmp_path: Path) -> None:
        """Neither by the switch nor after the next turn: not the schemas and calls of built-in tools."""

        @tool
        def mine(word: str = "x") -> str:
            """Say a word."""
            return word

        grep = 'call Grep {"pattern": "x", "-A": 3, "multiline": true, "head_limit": 4}'
        lines = (grep, "/model simulator:gemini", SAY)
        ours = talk(*lines, tools=coding_tools(tmp_path))
        assert not ours.has("lost: ")
        assert ours.has("nothing in the conversation is lost")
        theirs = talk(*lines, tools=[*coding_tools(tmp_path), mine])
        assert [line.strip() for line in theirs.lines if "lost: " in line] == [
            "lost: default at tool 'mine' at $.word: gemini does not support it; moved into the description"
        ]

    def test_losses_are_shown_once(self) -> None:
        over = talk("think deeply\nsay yes", "/model simulator:gemini", SAY, SAY)
        switch = next(
            index for index, line in enumerate(over.lines) if line.startswith("switched to simulator:gemini")
        )
        assert len([line for line in over.lines[switch:] if "thinking" in line and "lost" in line]) == 1

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("nope", "neither PROVIDER:MODEL"),
            ("antropic:x", "'anthropic'"),
            ("simulator:opnai", "'openai'"),
            ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ],
    )
    def test_invalid_model_changes_nothing(self, name: str, shown: str) -> None:
        over = talk(SAY, f"/model {name}", SAY)
        assert over.has(shown)
        assert over.agent.model.startswith("simulator:anthropic/")
        assert len(over.agent.conversation) == 4

    def test_key_in_the_environment_is_enough(self, monkeypatch: Patch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        environment.hide_environment()
        over = talk("/model openai:gpt-5.1")
        assert over.has("switched to openai-responses:gpt-5.1")
        assert "sk-test" not in over.shown


class TestTools:
    @pytest.mark.parametrize(
        ("model", "lines"),
        [
            ("anthropic/claude-opus-5", {"read": "read → Read  ", "shell": "shell → Bash  ", "add": "add  "}),
            (
                "openai-responses/gpt-5.5",
                {"web": "web → web.run  ", "patch": "patch → apply_patch  ", "view_image": "view_image  "},
            ),
            ("ollama/llama", {"read": "read", "edit": "edit  "}),
        ],
    )
    def test_tools_are_listed_with_the_names_the_model_sees(
        self, model: str, lines: dict[str, str], tmp_path: Path
    ) -> None:
        over = talk("/tools", model=f"simulator:{model}", tools=[*coding_tools(tmp_path), add])
        shown = {line.split(" ")[0]: line for line in over.lines}
        for name, line in lines.items():
            assert shown[name].startswith(line)
            assert not shown[name].endswith(("not allowed", "hidden from this model"))

    def test_hidden_and_denied_tools_are_marked(self, tmp_path: Path) -> None:
        model, policy = "simulator:openai-responses/gpt-5.5", PolicySettings(deny=("todo",))
        over = talk("/tools", model=model, tools=coding_tools(tmp_path), policy=policy)
        assert over.has("grep  ", "hidden from this model")
        assert over.has("todo  ", "not allowed")

    @pytest.mark.parametrize(
        ("model", "name", "shown"),
        [
            ("anthropic/claude-opus-5", "read", '"name": "Read"'),
            ("anthropic/claude-opus-5", "Read", '"file_path": {'),
            ("openai-responses/gpt-5.5", "web.run", '"namespace": "web"'),
            ("openai-responses/gpt-5.5", "grep", '"name": "grep"'),
        ],
    )
    def test_tool_can_be_named_either_way(self, model: str, name: str, shown: str, tmp_path: Path) -> None:
        over = talk(f"/tools {name}", model=f"simulator:{model}", tools=coding_tools(tmp_path))
        assert over.has(shown)
        assert {name, *COMPLETIONS[model]} <= set(over.chat.completions("/tools "))

    @pytest.mark.parametrize("moves", [True, False])
    def test_long_description_stays_on_its_line(self, moves: bool) -> None:
        @tool(description="漢字 and words " * 30, effects="write", approval=True)
        def wordy() -> str:
            return ""

        over = talk("/tools", tools=[wordy], moves=moves)
        assert len([line for line in over.lines if line.strip()]) == 2
        assert over.has("… asks first")

    def test_tools_that_code_calls_or_a_search_finds_are_told_from_those_that_the_model_sees(
        self, tmp_path: Path
    ) -> None:
        pytest.importorskip("pydantic_monty")
        tools = [*coding_tools(tmp_path), add]
        over = talk(
            "/tools",
            "/tools run_code",
            "/tools add",
            model="simulator:anthropic",
            tools=tools,
            code_mode="python",
        )
        shown = {line.split(" ")[0]: line for line in over.lines}
        assert shown["add"].endswith(" in code")
        assert not shown["run_code"].endswith(" in code")
        assert over.has("the model calls tools marked 'in code' from python")
        assert over.has('"name": "run_code"')
        assert over.has('"name": "add"')
        over = talk('call search_tools {"query": "numbers"}', "/tools", tools=[add, wipe], defer=("all",))
        shown = {line.split(" ")[0]: line for line in over.lines}
        assert shown["add"].endswith(" loaded")
        assert shown["wipe"].endswith((" deferred asks first", " loaded asks first"))
        assert "search_tools" in shown


def test_parts_of_the_context_add_up() -> None:
    usage = asyncio.run(talk(SAY).agent.context_usage())
    assert abs(sum(usage.parts.values()) - usage.total) <= len(usage.parts)  # each is rounded


class TestSaveAndLoad:
    def test_saved_conversation_can_be_loaded(self, tmp_path: Path) -> None:
        file = tmp_path / "new directory" / "chat.jsonl"
        over = talk(SAY, f"/save {file}", "/new", f"/load {file}", "say more")
        assert not over.has("saved with")
        assert talk(f"/load {file}", model="simulator:xai").has(
            "saved with simulator:anthropic/", ": use /model simulator:"
        )
        assert over.has("saved 2 messages to")
        assert over.has("started a new conversation")
        assert over.has("loaded 2 messages; your last prompt was 'say hello'")
        assert len(over.agent.conversation) == 4
        assert len(load(file.read_bytes())[0]) == 2

    def test_only_the_user_can_read_it_even_while_it_is_written(
        self, tmp_path: Path, monkeypatch: Patch
    ) -> None:
        modes: list[int] = []
        chmod = Path.chmod

        def record(self: Path, mode: int) -> None:
            if self.is_file():
                modes.append(stat.S_IMODE(self.stat().st_mode))
            chmod(self, mode)

        monkeypatch.setattr(Path, "chmod", record)
        file = tmp_path / "deep" / "chat.jsonl"
        talk(SAY, f"/save {file}")
        assert {*modes, stat.S_IMODE(file.stat().st_mode)} == {0o600}
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    @pytest.mark.parametrize(
        ("command", "directory"), [("/save", "state/chats"), ("/save ~/chat.jsonl", "~")]
    )
    def test_location(self, command: str, directory: str, tmp_path: Path) -> None:
        assert talk(SAY, command).has("saved 2 messages")
        assert len(list((tmp_path / Path(directory).expanduser()).glob("*.jsonl"))) == 1

    def test_unwritable_location_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        over = talk(SAY, f"/save {tmp_path}/file/chat", f"/save {tmp_path}", SAY)
        assert over.has("cannot save to", "chat")
        assert over.has("Is a directory")
        assert len(over.agent.conversation) == 4

    @pytest.mark.parametrize(
        ("function", "error"),
        [("os.fsync", errno.ENOSPC), ("os.replace", errno.EIO), ("tempfile.mkstemp", errno.ENOSPC)],
    )
    def test_failed_save_keeps_the_old_file(
        self, tmp_path: Path, monkeypatch: Patch, function: str, error: int
    ) -> None:
        file = tmp_path / "chats" / "chat.jsonl"
        talk(SAY, f"/save {file}")
        before = file.read_bytes()

        def fail(*_: Any, **__: Any) -> Any:
            raise OSError(error, os.strerror(error))

        def save_with_fault(_: Any) -> str:
            monkeypatch.setattr(function, fail)
            return f"/save {file}"

        def continue_without_fault(_: Any) -> str:
            monkeypatch.undo()
            return "say on we go"

        over = talk("say other words", save_with_fault, continue_without_fault)
        assert over.has("cannot save to", os.strerror(error))
        assert "on we go" in over.shown
        assert file.read_bytes() == before
        assert [path.name for path in file.parent.iterdir()] == ["chat.jsonl"]

    def test_unencodable_conversation_keeps_the_old_file(self, tmp_path: Path) -> None:
        (tmp_path / "chat.jsonl").write_bytes(b"precious")

        def break_save(chat: Any) -> str:
            chat.agent.save = lambda: (_ for _ in ()).throw(ValueError("cannot be encoded"))
            return "/save chat.jsonl"

        assert talk(SAY, break_save, SAY).has("cannot save to", "cannot be encoded")
        assert (tmp_path / "chat.jsonl").read_bytes() == b"precious"

    @pytest.mark.parametrize("name", ["real.jsonl", "link.jsonl"])
    def test_existing_file_is_replaced_and_made_private(self, name: str, tmp_path: Path) -> None:
        file = tmp_path / "real.jsonl"
        file.write_bytes(b"old")
        file.chmod(0o666)
        (tmp_path / "link.jsonl").symlink_to("real.jsonl")
        with file.open("rb") as reader:
            talk(SAY, f"/save {name}")
            assert reader.read() == b"old"  # a reader of the old file is not disturbed
        assert (tmp_path / "link.jsonl").is_symlink()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert len(load(file.read_bytes())[0]) == 2

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"not json",
            b"{}",
            b'{"toolglot": 999}\n',
            b"\xff\xfe",
            b"[1]\n[2]\n",
            b'{"format": 1}\n{"role": 5}\n',
        ],
    )
    def test_damaged_file_is_named_and_keeps_the_conversation(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "chat.jsonl").write_bytes(content)
        over = talk(SAY, "/load chat.jsonl", SAY)
        assert over.code == 0
        assert over.has("chat.jsonl")
        assert len(over.agent.conversation) == 4
        assert not over.has("loaded")


@pytest.mark.parametrize("command", ["/new", "/undo", "/load empty.jsonl"])
def test_status_line_is_updated(command: str) -> None:
    talk("/save empty.jsonl")
    chat = talk("/context", f"say {'word ' * 3_000}", command).chat
    before = chat.status()
    asyncio.run(chat.update_context_usage())
    assert chat.status() == before


class TestAttach:
    def test_file_is_sent_with_the_next_prompt_only(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("remember the milk")
        over = talk("/attach notes.txt", SAY, SAY)
        first, second = (message for message in over.agent.conversation if message.role == "user")
        assert over.has("notes.txt will be sent with the next prompt")
        assert over.has("attached: notes.txt")
        assert [type(block) for block in first.blocks] == [Text, Text]
        assert [type(block) for block in second.blocks] == [Text]

    @pytest.mark.parametrize(
        ("lines", "names"),
        [
            (["/attach a.png", "/attach 'my notes.txt'", SAY], "a.png, my notes.txt"),
            (["/attach my notes.txt", "fault unauthorized 1", SAY], "my notes.txt"),  # a failed turn keeps it
            (["/attach my notes.txt", "stop nope", SAY], "my notes.txt"),  # and so does a refused one
            (["{0}/my\\ notes.txt"], "my notes.txt"),  # a file that is dropped onto the terminal
        ],
    )
    def test_files_are_attached(self, lines: list[str], names: str, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (tmp_path / "my notes.txt").write_text("remember the milk")
        over = talk(*(line.format(tmp_path) for line in lines))
        assert over.has(f"attached: {names}")
        first = over.agent.conversation[0]
        assert "remember the milk" in first.text
        assert any(isinstance(block, Media) for block in first.blocks) == ("a.png" in names)


def test_show_prints_folded_text_in_full() -> None:
    assert talk('call many_lines {"count": 50}', "/show 2", tools=[many_lines]).has("line 49")
    assert talk("think one\nsay x", "think two\nsay y", "/show").lines[-1] == "two"


@pytest.mark.parametrize("leave", ["/quit", "/exit"])
def test_nothing_is_read_after_quit(leave: str) -> None:
    over = talk(leave, SAY)
    assert over.code == 0
    assert over.reader.lines == [SAY]


def test_files_of_the_real_user_are_not_touched(tmp_path: Path) -> None:
    talk('call wipe {"path": "a"}', "y", tools=[add, wipe])
    assert Path(os.environ["TOOLGLOT_STATE"]).parent == tmp_path
    assert (tmp_path / "state" / "audit.jsonl").is_file()
