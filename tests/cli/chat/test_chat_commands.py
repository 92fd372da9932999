"""What may follow a slash in a chat. Whatever is typed, the chat goes on."""

import asyncio
import os
import stat
from pathlib import Path

import pytest
from chat_harness import add, talk, wipe

from toolglot import coding_tools
from toolglot.cli.chat.commands import COMMANDS, find_command
from toolglot.engine.signin import environment
from toolglot.errors import UnknownName
from toolglot.messages import Media, Text, load
from toolglot.tools.tool import tool

SAY = "say hello"


@tool(effects="read")
def many_lines(count: int) -> str:
    """Say many lines."""
    return "\n".join(f"line {number}" for number in range(count))


class TestFinding:
    @pytest.mark.parametrize(
        ("text", "name", "argument"),
        [
            ("/help", "help", ""),
            ("/model  openai:gpt-5.1 ", "model", "openai:gpt-5.1"),
            ("/q", "quit", ""),
            ("/mod x", "model", "x"),
            ("/save my chat.jsonl", "save", "my chat.jsonl"),
        ],
    )
    def test_a_command_is_found(self, text: str, name: str, argument: str) -> None:
        assert find_command(text) == (COMMANDS[name], argument)

    @pytest.mark.parametrize("text", ["hello", "//help", "/etc/hosts is odd", "/usr", " /help", "/a/b"])
    def test_a_prompt_is_none(self, text: str) -> None:
        assert find_command(text) is None

    @pytest.mark.parametrize(
        ("text", "near"), [("/qiut", "'/quit'"), ("/modle", "'/model'"), ("/s", "/save"), ("/zzzz", "/help")]
    )
    def test_an_unknown_one_names_the_nearest(self, text: str, near: str) -> None:
        with pytest.raises(UnknownName, match=near):
            find_command(text)

    def test_a_slash_alone_is_no_prompt(self) -> None:
        with pytest.raises(UnknownName, match="/help"):
            find_command("/")


class TestAnythingGoes:
    @pytest.mark.parametrize(
        "line",
        [
            "/" + "x" * 5_000,
            "/" + "é" * 300,
            "/nul\x00",
            "/attach ~nosuchuser/file",
            "/attach nul\x00",
            "/attach",
            "/attach " + "x" * 5_000,
            "/load ~nosuchuser/file",
            "/load nul\x00",
            "/load",
            "/load " + "x" * 5_000,
            "/save ~nosuchuser/file",
            "/save nul\x00",
            "/save " + "x" * 5_000,
            "/show ²",
            "/show -1",
            "/show 0",
            "/show 99",
            "/show",
            "/model :",
            "/model zzz:y",
            "/model simulator:zzz",
            "/model openai:",
            "/tools zzz",
            "hello @~nosuchuser",
            "hello @nul\x00x",
            "~nosuchuser",
            "/nul\x00/x",
        ],
    )
    def test_the_chat_goes_on(self, line: str) -> None:
        over = talk("think first\nsay x", line, SAY)
        assert over.code == 0
        assert over.has("hello")

    def test_a_number_that_is_none_is_said(self) -> None:
        over = talk("think well\nsay x", "/show abc")
        assert over.has("abc")

    def test_two_slashes_are_a_prompt_with_one(self) -> None:
        over = talk("//help me")
        assert over.agent.conversation[0].text == "/help me"

    def test_a_path_is_a_prompt(self) -> None:
        over = talk("/etc/hosts and /tmp: what are they?")
        assert over.agent.conversation[0].text == "/etc/hosts and /tmp: what are they?"

    def test_a_dropped_file_is_attached(self, tmp_path: Path) -> None:
        file = tmp_path / "my notes.txt"
        file.write_text("remember the milk")
        over = talk(str(file).replace(" ", "\\ "))
        assert over.has("attached: my notes.txt")
        assert "remember the milk" in over.agent.conversation[0].text


class TestHelp:
    def test_it_names_every_command(self) -> None:
        over = talk("/help")
        for name in COMMANDS:
            assert over.has(f"/{name}")
        assert len(over.agent.conversation) == 0


class TestModel:
    def test_alone_it_says_which(self) -> None:
        over = talk("/model", aliases={"fast": "groq:llama"})
        assert over.has("simulator:anthropic/", "(anthropic-messages)")
        assert over.has("fast: groq:llama")

    def test_another_one_goes_on_with_the_conversation(self) -> None:
        over = talk(SAY, "/model simulator:gemini", SAY)
        assert over.has("switched to simulator:gemini/", "(gemini)", "from simulator:anthropic/")
        assert [one.role for one in over.agent.conversation] == ["user", "assistant"] * 2
        assert over.agent.model.startswith("simulator:gemini/")

    def test_what_is_lost_is_told_then_and_not_again(self) -> None:
        over = talk("think deeply\nsay yes", "/model simulator:gemini", SAY, SAY)
        switched = next(place for place, line in enumerate(over.lines) if line.startswith("switched to simulator:gemini"))
        told = [line for line in over.lines[switched:] if "thinking" in line and "lost" in line]
        assert len(told) == 1

    def test_where_nothing_is_lost_it_is_said(self) -> None:
        assert talk("/model simulator:openai-chat").has("nothing in the conversation is lost")

    def test_an_empty_conversation_needs_no_mending(self) -> None:
        assert not talk("/model simulator:openai").has("repaired")

    def test_an_alias_will_do(self) -> None:
        assert talk("/model g", aliases={"g": "simulator:gemini"}).has("switched to simulator:gemini/")

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("nope", "neither PROVIDER:MODEL"),
            ("antropic:x", "'anthropic'"),
            ("simulator:opnai", "'openai'"),
            ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ],
    )
    def test_one_that_cannot_be_changes_nothing(self, name: str, said: str) -> None:
        over = talk(SAY, f"/model {name}", SAY)
        assert over.has(said)
        assert over.agent.model.startswith("simulator:anthropic/")
        assert len(over.agent.conversation) == 4

    def test_a_key_in_the_environment_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        environment.hide_environment()
        over = talk("/model openai:gpt-5.1")
        assert over.has("switched to openai-responses:gpt-5.1") or over.has("switched to openai:gpt-5.1")
        assert "sk-test" not in over.shown


class TestTools:
    def test_all_of_them(self) -> None:
        over = talk("/tools")
        assert over.has("add  Add two numbers.")
        assert over.has("wipe", "asks first")
        assert not over.has("add", "asks first")

    def test_one_that_is_not_allowed_is_marked(self) -> None:
        from toolglot.config.settings import PolicySettings

        over = talk("/tools", policy=PolicySettings(deny=("wi*",)))
        assert over.has("wipe", "not allowed")

    def test_one_as_it_is_offered(self) -> None:
        over = talk("/tools add")
        assert over.has('"name": "add"')
        assert over.has('"description": "Add two numbers."')

    def test_an_unknown_one_names_the_nearest(self) -> None:
        assert talk("/tools ad").has("unknown tool 'ad'", "'add'")

    @pytest.mark.parametrize(
        ("model", "lines"),
        [
            ("anthropic/claude-opus-5", {"read": "read → Read  ", "shell": "shell → Bash  ", "add": "add  Add two"}),
            (
                "openai-responses/gpt-5.5",
                {"web": "web → web.run  ", "patch": "patch → apply_patch  ", "view_image": "view_image  "},
            ),
            ("ollama/llama", {"read": "read", "edit": "edit  "}),
        ],
    )
    def test_each_has_the_name_that_the_model_sees(self, model: str, lines: dict[str, str], tmp_path: Path) -> None:
        over = talk("/tools", model=f"simulator:{model}", tools=[*coding_tools(tmp_path), add])
        shown = {line.split(" ")[0]: line for line in over.lines}
        for name, line in lines.items():
            assert shown[name].startswith(line)
            assert not shown[name].endswith(("not allowed", "hidden from this model"))

    def test_what_a_model_has_no_tool_for_is_marked_and_what_is_denied_too(self, tmp_path: Path) -> None:
        from toolglot.config.settings import PolicySettings

        over = talk(
            "/tools",
            model="simulator:openai-responses/gpt-5.5",
            tools=coding_tools(tmp_path),
            policy=PolicySettings(deny=("todo",)),
        )
        assert over.has("grep  ", "hidden from this model")
        assert over.has("todo  ", "not allowed")
        assert over.has("patch → apply_patch")

    @pytest.mark.parametrize(
        ("model", "name", "shown"),
        [
            ("anthropic/claude-opus-5", "read", '"name": "Read"'),
            ("anthropic/claude-opus-5", "Read", '"file_path": {'),
            ("openai-responses/gpt-5.5", "web.run", '"namespace": "web"'),
            ("openai-responses/gpt-5.5", "grep", '"name": "grep"'),
        ],
    )
    def test_one_of_the_built_in_tools_by_either_name(self, model: str, name: str, shown: str, tmp_path: Path) -> None:
        over = talk(f"/tools {name}", model=f"simulator:{model}", tools=coding_tools(tmp_path))
        assert over.has(shown)

    def test_either_name_is_completed(self, tmp_path: Path) -> None:
        words = talk(model="simulator:anthropic/claude-opus-5", tools=coding_tools(tmp_path)).chat.completions("/tools R")
        assert {"Read", "read", "Bash", "shell"} <= set(words)

    def test_none_at_all(self) -> None:
        assert talk("/tools", tools=[]).has("no tools")

    @pytest.mark.parametrize("moves", [True, False])
    def test_a_long_description_stays_in_its_line(self, moves: bool) -> None:
        @tool(description="漢字 and words " * 30, effects="write", approval=True)
        def wordy() -> str:
            return ""

        over = talk("/tools", tools=[wordy], moves=moves)
        assert len([line for line in over.lines if line.strip()]) == 1


class TestContext:
    def test_it_says_how_full_and_of_what(self) -> None:
        over = talk(SAY, "/context")
        assert over.has("tokens of", "in the next request")
        assert over.has("tools")
        assert over.has("context window: 200,000 tokens")

    def test_the_parts_are_all_of_it(self) -> None:
        measured = asyncio.run(talk(SAY).agent.context_usage())
        assert abs(sum(measured.parts.values()) - measured.total) <= len(measured.parts)  # each is rounded

    def test_an_unknown_window_is_said(self) -> None:
        assert talk("/context", model="simulator:compatible/x").has("the context window is unknown")

    def test_one_word_is_one_word(self) -> None:
        assert talk("think hm\nsay x").has("1 word ·")


class TestSaveAndLoad:
    def test_what_was_saved_is_loaded(self, tmp_path: Path) -> None:
        file = tmp_path / "new folder" / "chat.jsonl"
        over = talk(SAY, f"/save {file}", "/new", f"/load {file}", "say more")
        assert over.has("saved 2 messages to")
        assert over.has("started a new conversation")
        assert over.has("loaded 2 messages; your last prompt was 'say hello'")
        assert len(over.agent.conversation) == 4
        assert len(load(file.read_bytes())[0]) == 2

    def test_only_the_user_may_read_it(self, tmp_path: Path) -> None:
        file = tmp_path / "deep" / "chat.jsonl"
        talk(SAY, f"/save {file}")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    def test_nobody_may_read_it_while_it_is_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[int] = []
        chmod = Path.chmod

        def seen(self: Path, mode: int) -> None:
            made.append(stat.S_IMODE(self.stat().st_mode))
            chmod(self, mode)

        monkeypatch.setattr(Path, "chmod", seen)
        file = tmp_path / "chat.jsonl"
        talk(SAY, f"/save {file}")
        assert {*made, stat.S_IMODE(file.stat().st_mode)} == {0o600}

    def test_without_a_name_it_gets_one(self, tmp_path: Path) -> None:
        over = talk(SAY, "/save")
        (file,) = (tmp_path / "state" / "chats").glob("*.jsonl")
        assert over.has("saved 2 messages") or str(file) in over.shown

    def test_a_tilde_is_home(self, tmp_path: Path) -> None:
        talk(SAY, "/save ~/chat.jsonl", "/load ~/chat.jsonl")
        assert (tmp_path / "chat.jsonl").is_file()

    def test_a_place_that_cannot_be_written_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        over = talk(SAY, f"/save {tmp_path}/file/chat", f"/save {tmp_path}", SAY)
        assert over.has("cannot save to", "chat")
        assert over.has("Is a directory")
        assert len(over.agent.conversation) == 4

    @pytest.mark.parametrize(
        "content",
        [b"", b"not json", b"{}", b'{"toolglot": 999}\n', b"\xff\xfe", b"[1]\n[2]\n", b'{"format": 1}\n{"role": 5}\n'],
    )
    def test_a_damaged_file_keeps_the_conversation(self, content: bytes, tmp_path: Path) -> None:
        file = tmp_path / "chat.jsonl"
        file.write_bytes(content)
        over = talk(SAY, f"/load {file}", SAY)
        assert over.code == 0
        assert len(over.agent.conversation) == 4
        assert not over.has("loaded")

    def test_a_damaged_file_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "chat.jsonl"
        file.write_bytes(b"not json")
        assert talk(f"/load {file}").has("chat.jsonl")

    def test_a_missing_one_is_named(self) -> None:
        assert talk("/load nowhere.jsonl").has("cannot read the conversation 'nowhere.jsonl'")


class TestUndoAndNew:
    def test_the_last_prompt_and_its_answer_are_taken_back(self) -> None:
        over = talk(SAY, 'call add {"a": 1, "b": 2}', "/undo")
        assert over.has("removed 'call add", "3 messages after it")
        assert over.has("the effects of its tools are not undone")
        assert len(over.agent.conversation) == 2

    def test_one_message_is_one_message(self) -> None:
        assert talk(SAY, "/undo").has("and 1 message after it")

    def test_where_there_is_nothing_it_is_said(self) -> None:
        over = talk("/undo", SAY, "/undo", "/undo")
        assert sum("nothing to undo" in line for line in over.lines) == 2

    def test_a_new_conversation_knows_nothing(self) -> None:
        over = talk(SAY, "/new", "/undo")
        assert over.has("there is nothing to undo")

    @pytest.mark.parametrize("command", ["/new", "/undo", "/load empty.jsonl"])
    def test_the_line_below_the_editor_knows_it_too(self, command: str, tmp_path: Path) -> None:
        talk("/save empty.jsonl")
        before = talk("/context", f"say {'word ' * 3_000}", command)

        async def fullness() -> str:
            await before.chat.update_context_usage()
            return before.chat.status()

        assert before.chat.status() == asyncio.run(fullness())


class TestAttach:
    def test_a_file_goes_with_the_next_prompt_only(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("remember the milk")
        over = talk("/attach notes.txt", SAY, SAY)
        first, second = (one for one in over.agent.conversation if one.role == "user")
        assert over.has("notes.txt will be sent with the next prompt")
        assert over.has("attached: notes.txt")
        assert [type(block) for block in first.blocks] == [Text, Text]
        assert [type(block) for block in second.blocks] == [Text]

    def test_several_add_up(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (tmp_path / "b.txt").write_text("b")
        over = talk("/attach a.png", "/attach 'b.txt'", SAY)
        assert over.has("attached: a.png, b.txt")
        assert any(isinstance(block, Media) for block in over.agent.conversation[0].blocks)

    def test_a_missing_one_is_named(self) -> None:
        assert talk("/attach nowhere").has("cannot read attachment 'nowhere'")

    def test_a_failed_turn_gives_it_back(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("remember the milk")
        over = talk("/attach notes.txt", "fault unauthorized 1", SAY)
        assert "remember the milk" in over.agent.conversation[0].text


class TestShow:
    def test_a_long_result_is_shown_whole(self) -> None:
        over = talk('call many_lines {"count": 50}', "/show 2", tools=[many_lines])
        assert over.has("line 49")

    def test_without_a_number_it_is_the_last(self) -> None:
        over = talk("think one\nsay x", "think two\nsay y", "/show")
        assert over.lines[-1] == "two"

    def test_a_number_that_is_not_there_is_said(self) -> None:
        assert talk("think one\nsay x", "/show 7").has("there is no folded text '7'")

    def test_where_nothing_is_folded_it_is_said(self) -> None:
        assert talk("/show").has("nothing has been folded yet")


class TestQuit:
    def test_what_comes_after_it_is_not_read(self) -> None:
        over = talk("/quit", SAY)
        assert over.code == 0
        assert over.reader.lines == [SAY]


def test_nothing_of_the_real_user_is_touched(tmp_path: Path) -> None:
    talk('call wipe {"path": "a"}', "y", tools=[add, wipe])
    assert Path(os.environ["TOOLGLOT_STATE"]).parent == tmp_path
    assert (tmp_path / "state" / "audit.jsonl").is_file()
