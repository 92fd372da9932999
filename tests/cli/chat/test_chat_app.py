"""The chat itself: turns, questions, Ctrl-C, errors.

Whatever happens, it goes on and the conversation is valid.
"""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from chat_harness import Talk, add, talk, wipe

from toolglot import coding_tools
from toolglot.builtin.tool_state import UserQuestion
from toolglot.cli.chat.app import Chat
from toolglot.cli.chat.input import EndOfInput
from toolglot.config.settings import PolicySettings, Settings
from toolglot.config.setup import Setup
from toolglot.engine.simulated import SimulatedTransport
from toolglot.errors import AuthenticationFailed, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import RetryConfig
from toolglot.tools.tool import tool
from toolglot.values.events import RunEvent, TextDelta
from toolglot.values.messages import Message, Text

SAY = "say hello"
WIPE = 'call wipe {"path": "a.txt"}'
QUICK = RetryConfig(max_retries=0)


def roles(over: Talk) -> list[str]:
    return [message.role for message in over.agent.conversation]


def unanswered_calls(conversation: Iterable[Message]) -> set[str]:
    """Calls without a result."""
    messages = list(conversation)
    calls = {call.id for message in messages for call in message.calls}
    return calls - {result.call_id for message in messages for result in message.results}


def paused_run() -> bytes:
    """A conversation that waits for an approval."""
    agent = Agent("simulator", tools=[add, wipe])
    assert agent.run_sync(WIPE).stop == "approval"
    return agent.save()


class TestTalking:
    def test_the_first_prompt_goes_before_what_is_read(self) -> None:
        over = talk("say second", first="say first")
        assert [message.text for message in over.agent.conversation if message.role == "user"] == [
            "say first",
            "say second",
        ]

    def test_input_can_be_empty_blank_or_a_command(self) -> None:
        assert talk().code == 0
        assert roles(talk("", "   ", "\n", SAY)) == ["user", "assistant"]
        assert talk(first="/help").has("/quit")
        assert talk("say @nowhere").agent.conversation[0].text == "say @nowhere"

    def test_a_line_that_cannot_be_read_is_said_and_left_out(self) -> None:
        over = talk(UsageError("line 1 of the input is not UTF-8 text and was skipped"), SAY)
        assert over.has("line 1 of the input is not UTF-8")
        assert roles(over) == ["user", "assistant"]

    def test_status_counts_the_tools_that_the_model_has(self) -> None:
        def load_more(chat: Chat) -> str:
            assert " · 1 tool · " in chat.status()
            chat.agent.add_tools([tool(lambda: "x", name="more", description="More.")])
            assert " · 2 tools · " in chat.status()
            return SAY

        talk(load_more, policy=PolicySettings(deny=("wipe",)))

    def test_status_counts_the_tools_that_the_facade_hides(self, tmp_path: Path) -> None:
        tools = coding_tools(tmp_path)
        over = talk("/tools", tools=tools, policy=PolicySettings(deny=("web_*",)))
        hidden = [line for line in over.lines if line.endswith(" hidden from this model")]
        counted = re.search(r" · (\d+) tools · .* · (\d+) tools hidden$", over.chat.status())
        assert counted is not None
        denied = [line for line in over.lines if line.endswith(" not allowed")]
        assert int(counted[2]) == len(hidden) > 0
        assert int(counted[1]) == len(tools) - len(hidden) - len(denied)

    def test_status_keeps_the_context_on_a_narrow_terminal(self) -> None:
        chat = talk(SAY).chat
        wide = chat.status()
        chat.screen.console.width = len(wide) - 1
        assert chat.status() == wide.replace(" · 2 tools", "")

    def test_status_names_model_tools_and_memory(self) -> None:
        assert re.match(r" simulator:anthropic/.* · 2 tools · .* tokens of", talk(SAY).chat.status())


class TestApprovals:
    @pytest.mark.parametrize(
        ("answers", "ran"),
        [
            (["y"], True),
            (["yes"], True),
            (["n"], False),
            (["no"], False),
            (["a"], True),
            (["what?", "", "y"], True),
            ([UsageError("not UTF-8"), "n"], False),
            ([EndOfInput()], False),
        ],
        ids=str,
    )
    def test_the_answer_counts(self, answers: list[Any], ran: bool) -> None:
        over = talk(WIPE, *answers)
        assert over.has("? wipe wants to run (write)")
        assert over.has("  path: a.txt")
        assert over.has("wiped a.txt") == ran
        assert not unanswered_calls(over.agent.conversation)
        assert over.code == 0

    @pytest.mark.parametrize(
        ("lines", "questions"),
        [([WIPE, "maybe", "y"], 2), ([WIPE, "a", WIPE], 1), ([WIPE, "y", WIPE, "y"], 2)],
    )
    def test_number_of_questions(self, lines: list[str], questions: int) -> None:
        over = talk(*lines)
        assert len(over.reader.questions) == questions
        assert over.has("please answer y, n, r, a, e") == ("maybe" in lines)
        assert roles(over).count("tool") == lines.count(WIPE)

    @pytest.mark.parametrize("width", [80, 120])
    def test_the_question_has_room_for_its_answer(self, width: int) -> None:
        def narrow(chat: Chat) -> str:
            chat.screen.console.width = width
            return WIPE

        question = talk(narrow, "reason", "not now").reader.questions[0]
        lines = question.split("\n")
        assert max(map(len, lines)) + len("reason") < width
        assert lines[-1].startswith("  y yes · n no · r no, with a reason · ")
        assert ("  a+Enter always for this tool" in lines) == (width == 80)
        assert question.endswith("e edit: ")

    def test_the_time_to_answer_does_not_count(self) -> None:
        def answer(chat: Chat) -> str:
            time.sleep(1.5)
            return "y"

        over = talk(WIPE, answer)
        seconds = re.findall(r"^(\d+\.\d) s · 2 requests", over.shown, re.MULTILINE)
        assert [each < "1.0" for each in seconds] == [True]

    def test_two_at_once_are_asked_one_after_the_other(self) -> None:
        over = talk(f'{WIPE}\ncall wipe {{"path": "b.txt"}}', "y", "n")
        assert over.has("wiped a.txt")
        assert not over.has("wiped b.txt")
        assert not unanswered_calls(over.agent.conversation)

    def test_the_end_of_the_input_is_no_and_the_end(self) -> None:
        over = talk(WIPE, EndOfInput(), SAY)
        assert over.reader.lines == [SAY]
        assert over.agent.conversation[2].results[0].error_kind == "rejected"

    @pytest.mark.parametrize("moves", [True, False])
    def test_ctrl_c_stops_the_turn(self, moves: bool) -> None:
        over = talk(WIPE, KeyboardInterrupt(), SAY, moves=moves)
        assert over.code == 0
        assert over.has("stopped; the conversation is valid")
        assert not unanswered_calls(over.agent.conversation)
        assert not over.has("wiped")
        assert over.agent.conversation[-1].text == "hello"


class TestErrors:
    @pytest.mark.parametrize(
        "fault",
        [
            "unauthorized",
            "quota",
            "server-error 9",
            "overloaded 9",
            "rate-limit:0.01 9",
            "html 9",
            "reset 9",
            "reset-mid-stream",
            "half-json",
            "truncated",
            "error-in-200",
            "error-in-200-first 9",
        ],
    )
    @pytest.mark.parametrize("model", ["simulator", "simulator:openai-chat"])
    def test_a_failed_turn_is_taken_back_and_the_chat_goes_on(self, fault: str, model: str) -> None:
        over = talk(SAY, f"fault {fault}\nsay never", SAY, model=model, retry=QUICK)
        assert over.code == 1  # a script must know
        assert "the prompt was removed from the conversation" in over.lines  # and has no Up
        assert roles(over) == ["user", "assistant"] * 2
        assert "never" not in [message.text for message in over.agent.conversation]

    def test_a_page_of_html_is_shown_as_words(self) -> None:
        over = talk("fault html 9", retry=QUICK)
        assert "<html" not in over.shown.lower()
        assert over.has("502")
        assert "\x1b" not in over.shown

    def test_a_short_fault_is_retried(self) -> None:
        over = talk("fault server-error 1\nsay hello", retry=RetryConfig(base=0.0))
        assert over.has("retrying in")
        assert over.has("hello")

    @pytest.mark.parametrize(("on_error", "roles_of_turn"), [("continue", 4), ("abort", 3)])
    def test_a_failed_tool_is_shown_and_the_chat_continues(self, on_error: Any, roles_of_turn: int) -> None:
        @tool
        def broken() -> str:
            """Fail."""
            raise ValueError("no such thing")

        over = talk("call broken {}", SAY, tools=[broken], policy=PolicySettings(on_error=on_error))
        assert over.has("✗ broken")
        assert over.has("no such thing")
        assert roles(over)[:roles_of_turn] == ["user", "assistant", "tool", "assistant"][:roles_of_turn]
        assert over.agent.conversation[-1].text == "hello"
        assert not unanswered_calls(over.agent.conversation)

    def test_a_turn_that_did_something_is_not_taken_back(self) -> None:
        """What a tool did stays in the conversation, also where the request after it fails."""
        over = talk(SAY, 'call add {"a": 1, "b": 2}\nthen call add {"a": 3, "b": 4}', setup=failing_after(2))
        assert over.has("the key is wrong")
        assert not over.has("taken back")
        assert roles(over)[:5] == ["user", "assistant", "user", "assistant", "tool"]

    def test_nor_is_one_that_went_on_after_an_approval(self) -> None:
        over = talk("y", saved=paused_run(), setup=failing_after(0))
        assert over.has("wiped a.txt")
        assert not over.has("taken back")
        assert roles(over)[:3] == ["user", "assistant", "tool"]

    def test_a_lone_surrogate_does_not_end_the_chat(self) -> None:
        assert talk("say lone \ud83d", SAY).code == 0


def failing_after(requests: int) -> Setup:
    """A setup whose provider refuses everything after so many requests."""

    class Failing(SimulatedTransport):
        left = requests

        def send(self, *arguments: Any, **named: Any) -> Any:
            if self.left <= 0:
                raise AuthenticationFailed("the key is wrong")
            self.left -= 1
            return super().send(*arguments, **named)

    return Setup(Settings(retry=QUICK), transport=Failing())


class TestCtrlC:
    @staticmethod
    def press_in_a_tool(*lines: Any, moves: bool = False, times: int = 1) -> Talk:
        @tool(effects="read")
        async def wait() -> str:
            """Wait for long."""
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
            return "waited"

        return talk("call wait {}", *lines, tools=[wait], moves=moves)

    @pytest.mark.parametrize(("moves", "times"), [(True, 1), (False, 1), (False, 3)])
    def test_in_a_turn_it_stops_the_turn(self, moves: bool, times: int) -> None:
        over = self.press_in_a_tool(SAY, moves=moves, times=times)
        assert over.code == 0
        assert over.has("stopped; the conversation is valid")
        assert over.has("✗ wait", "stopped after")
        assert not unanswered_calls(over.agent.conversation)
        assert over.agent.conversation[-1].text == "hello"

    def test_to_stop_a_turn_is_not_half_of_an_exit(self) -> None:
        over = self.press_in_a_tool(KeyboardInterrupt(), SAY)
        assert over.agent.conversation[-1].text == "hello"
        assert sum("press Ctrl-C again to exit" in line for line in over.lines) == 1
        over = self.press_in_a_tool(KeyboardInterrupt(), KeyboardInterrupt(), SAY)
        assert over.reader.lines == [SAY]

    @pytest.mark.parametrize("is_signal", [False, True])
    @pytest.mark.parametrize(("seconds", "leaves"), [(0.0, True), (1.9, True), (2.0, False), (3600.0, False)])
    def test_a_second_one_counts_for_two_seconds(self, seconds: float, leaves: bool, is_signal: bool) -> None:
        now = 1000.0

        def press(chat: Chat) -> str:
            chat.clock = lambda: now
            if not is_signal:
                raise KeyboardInterrupt
            chat.keyboard.is_terminal = True
            chat._interrupt()  # pyright: ignore[reportPrivateUsage] - as the signal does
            return ""

        def press_again(chat: Chat) -> str:
            nonlocal now
            now += seconds
            return press(chat)

        over = talk(press, press_again, "", SAY)
        assert (over.reader.lines == []) is not leaves
        assert sum("press Ctrl-C again to exit" in line for line in over.lines) == (1 if leaves else 2)
        assert over.code == 0  # however short the moment between turn and prompt was

    def test_while_an_answer_streams_it_stops_it(self) -> None:
        shown: list[str] = []

        def interrupt(chat: Chat) -> str:
            draw = chat.screen.show_event

            def watch(event: RunEvent) -> None:
                draw(event)
                shown.append(type(event).__name__)
                if isinstance(event, TextDelta):
                    os.kill(os.getpid(), signal.SIGINT)

            chat.screen.show_event = watch
            return f"say {'word ' * 400}"

        def go_on(chat: Chat) -> str:
            del chat.screen.show_event
            return SAY

        over = talk(interrupt, go_on)
        assert over.has("stopped; the conversation is valid")
        assert "RunDone" not in shown
        assert over.agent.conversation[-1].text == "hello"
        assert roles(over)[0] == "user"

    def test_at_the_prompt_it_is_said_that_a_second_one_leaves(self) -> None:
        over = talk(KeyboardInterrupt(), SAY, KeyboardInterrupt(), KeyboardInterrupt(), "say never")
        assert sum("press Ctrl-C again to exit" in line for line in over.lines) == 2
        assert over.reader.lines == ["say never"]
        assert over.code == 0
        # a blank line says nothing
        assert talk(KeyboardInterrupt(), "", KeyboardInterrupt(), SAY).reader.lines == [SAY]

    def test_as_a_signal_while_a_line_is_awaited_it_leaves(self) -> None:
        def interrupt(chat: Chat) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            return ""

        assert talk(interrupt, *[""] * 50, SAY).code == 130

    def test_the_handler_of_before_is_put_back(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        talk(SAY)
        assert signal.getsignal(signal.SIGINT) is before


class TestRestored:
    def test_a_run_that_waited_is_gone_on_with(self) -> None:
        over = talk("y", SAY, saved=paused_run())
        assert over.has("loaded 2 messages; your last prompt was", "call wipe")
        assert over.has("? wipe wants to run")
        assert not over.has("was changed")
        assert over.has("wiped a.txt")
        assert over.agent.conversation[-1].text == "hello"

    @pytest.mark.parametrize("answer", ["n", KeyboardInterrupt()], ids=["no", "Ctrl-C"])
    def test_without_approval_nothing_runs(self, answer: Any) -> None:
        over = talk(answer, SAY, saved=paused_run())
        assert not over.has("wiped a.txt")
        assert not unanswered_calls(over.agent.conversation)
        assert over.agent.conversation[-1].text == "hello"

    @pytest.mark.parametrize("tool", ["wipe", "add"])
    @pytest.mark.parametrize("command", [False, True], ids=["--load", "/load"])
    def test_a_file_that_decides_by_itself_is_asked_about(
        self, tmp_path: Path, tool: str, command: bool
    ) -> None:
        """S6: it ran without a question. Not even a tool that needs no approval runs because a file says so."""
        header, _, messages = paused_run().partition(b"\n")
        fields = json.loads(header)
        fields["run"] |= {"waiting": [], "decisions": {"0": "yes"}}
        call = {"wipe": {"path": "a.txt"}, "add": {"a": 1, "b": 2}}[tool]
        fields["run"]["calls"][0] |= {"name": tool, "arguments": call}
        evil = json.dumps(fields).encode() + b"\n" + messages
        (tmp_path / "evil.jsonl").write_bytes(evil)
        over = talk("/load evil.jsonl", "n") if command else talk("n", saved=evil)
        assert over.has("! the saved run was changed, or was saved with another approval key")
        assert over.has(f"? {tool} wants to run")
        [result] = over.agent.conversation[2].results
        assert result.error_kind == "rejected"

    def test_it_continues_before_the_first_prompt(self) -> None:
        over = talk("y", saved=paused_run(), first=SAY)
        assert roles(over) == ["user", "assistant", "tool", "assistant", "user", "assistant"]

    def test_it_may_be_loaded_in_a_chat(self, tmp_path: Path) -> None:
        (tmp_path / "paused.jsonl").write_bytes(paused_run())
        assert talk("/load paused.jsonl", "y").has("wiped a.txt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/mo", {"/model"}),
        ("/tools ", {"add", "wipe"}),
        ("/model sim", {"simulator:gemini", "gemini:"}),
        ("/model o", {"openai:"}),
        *(
            (text, None)
            for text in (
                "/undo ",
                "hello",
                "hello wor",
                "say /mo",
                "one\n/mo",
                "/zzz ",
                "//x y",
                "/" + "x" * 5_000 + " y",
                "",
            )
        ),
    ],
)
def test_completions_fit_the_text(text: str, words: set[str] | None) -> None:
    completions = set(talk().chat.completions(text))
    assert words <= completions if words else not completions


def test_questions_of_parallel_calls_come_one_after_the_other() -> None:
    chats: list[Chat] = []

    @tool(effects="read")
    async def ask(number: int) -> str:
        """Ask the user."""
        answers = await chats[0].answer_questions(
            [UserQuestion(question="May I?"), UserQuestion(question="Really?")]
        )
        return f"{number}: {answers}"

    def prompt(chat: Chat) -> str:
        chats.append(chat)
        return 'call ask {"number": 1} call ask {"number": 2}'

    over = talk(prompt, "a", "b", "c", "d", tools=[ask])
    assert re.findall(r"\? (May|Really)", over.shown) == ["May", "Really", "May", "Really"]
    assert over.has("1: ['a', 'b']")
    assert over.has("2: ['c', 'd']")


class TestAttachments:
    """Files are sent if the user typed their names, and asked about outside the workspace.

    Pasted text sends nothing.
    """

    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in ("project", ".ssh"):
            (tmp_path / name).mkdir()
        (tmp_path / ".ssh/id_rsa").write_text("SECRET")
        (tmp_path / "project/notes.txt").write_text("NOTES")
        (tmp_path / "project/link.txt").symlink_to(tmp_path / ".ssh/id_rsa")
        monkeypatch.chdir(tmp_path / "project")
        monkeypatch.setenv("HOME", str(tmp_path))
        return tmp_path

    @staticmethod
    def ask(*lines: Any, pasted: bool = False, is_terminal: bool = True) -> Talk:
        def prompt(chat: Chat) -> str:
            vars(chat.keyboard)["is_terminal"] = is_terminal
            chat.reader.inserted = [lines[0]] if pasted else []
            return lines[0]

        return talk(prompt, *lines[1:])

    def test_what_is_typed_is_attached(self) -> None:
        over = self.ask("read @notes.txt")
        assert over.has("attached: notes.txt")
        assert over.agent.conversation[0].blocks[1] == Text("[notes.txt]\nNOTES")

    def test_a_file_is_attached_once(self) -> None:
        over = talk("/attach notes.txt", "read @notes.txt")
        assert [block.text for block in over.agent.conversation[0].blocks if isinstance(block, Text)] == [
            "read @notes.txt",
            "[notes.txt]\nNOTES",
        ]

    @pytest.mark.parametrize(
        "text", ["report\n\ncc @~/.ssh/id_rsa and @notes.txt", "@notes.txt", "@link.txt"]
    )
    def test_what_is_pasted_is_not(self, text: str) -> None:
        over = self.ask(text, pasted=True)
        assert over.has("was not typed and is not attached: use /attach to send a file")
        assert [
            block for message in over.agent.conversation for block in message.blocks if "SECRET" in str(block)
        ] == []
        assert len(over.agent.conversation[0].blocks) == 1
        assert over.reader.questions == []

    def test_a_prompt_that_failed_is_sent_again_with_its_files(self) -> None:
        def recall(chat: Chat) -> str:
            chat.reader.inserted = ["say @notes.txt @link.txt"]
            return "say @notes.txt @link.txt"

        over = talk("fault unauthorized\nsay @notes.txt", recall, recall)
        assert over.shown.count("attached: notes.txt") == 2
        assert [len(message.blocks) for message in over.agent.conversation if message.role == "user"] == [
            2,
            1,
        ]
        assert "SECRET" not in str(over.agent.conversation)

    @pytest.mark.parametrize("answer", ["y", "n", "", KeyboardInterrupt()], ids=str)
    @pytest.mark.parametrize("text", ["see @~/.ssh/id_rsa", "see @link.txt", "~/.ssh/id_rsa"])
    def test_files_outside_the_workspace_are_asked_about(self, home: Path, text: str, answer: Any) -> None:
        over = self.ask(text, answer)
        question = f"? send the file {home}/.ssh/id_rsa, which is outside the workspace"
        assert "".join(question.split()) in "".join(over.shown.replace("↪", "").split())
        sent = [message for message in over.agent.conversation if "SECRET" in str(message)]
        assert bool(sent) == (answer == "y")
        assert over.has("not sent") == isinstance(answer, KeyboardInterrupt)

    @pytest.mark.parametrize(("answer", "sent"), [("y", "[notes.txt]"), ("n", "./notes.txt")])
    def test_a_file_that_is_dropped_is_asked_about(self, answer: str, sent: str) -> None:
        over = self.ask("./notes.txt", answer, pasted=True)
        assert over.agent.conversation[0].text.startswith(sent)
        assert len(over.agent.conversation[0].blocks) == (2 if answer == "y" else 1)

    def test_nobody_is_asked_in_a_pipe(self) -> None:
        over = self.ask("see @~/.ssh/id_rsa", is_terminal=False)
        assert over.has("which is outside the workspace is not attached: use /attach to send it")
        assert "SECRET" not in str(over.agent.conversation)
