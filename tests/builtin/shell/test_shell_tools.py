"""The four tools at work: results, limits of time, the background, folders, asking, and that nothing is left behind."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shell_kit import Kit, memory, open_handles, processes, text_of, unavailable_reason

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.shell import SandboxLevel, ShellOptions, close_shell, describe_sandbox, shell_tools
from toolglot.builtin.shell.limits import _parent_group  # pyright: ignore[reportPrivateUsage]
from toolglot.builtin.tool_state import ToolState, UserQuestion
from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.errors import UsageError
from toolglot.messages import ToolCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ApprovalAnswer, ApprovalRequest, ToolExecutor
from toolglot.tools.registry import ToolRegistry

LEVELS = [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK, SandboxLevel.NONE]


def kit_of(base: Path, level: SandboxLevel, **options: Any) -> Kit:
    if level is not SandboxLevel.NONE and (why := unavailable_reason(level)):
        pytest.skip(f"{level.label} does not hold here: {why}")
    return Kit(base, level, **options)


@pytest.fixture(params=LEVELS, ids=lambda level: level.label)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Kit]:
    kit = kit_of(tmp_path, request.param)
    yield kit
    kit.close()


@pytest.fixture
def held(tmp_path: Path) -> Generator[Kit]:
    """A kit of the best level that holds here."""
    level = next((level for level in LEVELS[:2] if not unavailable_reason(level)), None)
    if level is None:
        pytest.skip("no sandbox holds here")
    kit = Kit(tmp_path, level)
    yield kit
    kit.close()


class TestAResult:
    def test_has_everything_to_tell_of_it(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="echo out; echo err >&2; exit 3", description="tries"))
        assert found["output"] == "out\nerr\n"
        assert (found["exit_code"], found["signal"], found["running"], found["timed_out"]) == (3, None, False, False)
        assert (found["total_bytes"], found["total_lines"], found["description"]) == (8, 2, "tries")
        assert found["sandbox"] in ("bwrap+seccomp", "landlock+seccomp", "none")
        assert 0 < found["seconds"] < 5

    def test_is_text_for_the_model(self, held: Kit) -> None:
        assert held.run(held.text(command="echo hi")) == "hi"
        assert held.run(held.text(command="true")) == "(no output)"
        assert held.run(held.text(command="echo no >&2; exit 2")) == "no\n[exit code 2]"

    def test_holds_no_descriptors_of_ours(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="ls -l /proc/self/fd | grep -c -- '->'"))
        assert int(found["output"]) <= 5  # three streams, where the folder is told, and what ls itself has open

    def test_says_which_signal_ended_it(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="kill -9 $$"))
        assert (found["exit_code"], found["signal"]) == (137, 9)

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ("true", 0),
            ("false", 1),
            ("exit 200", 200),
            ("nosuchprogram", 127),
            ("if", 2),
            ("trap 'exit 9' EXIT", 9),
            ("set -e; false; true", 1),
            ("exec sh -c 'exit 4'", 4),
            ("(exit 5)", 5),
            ("echo $# $1; exit 6", 6),
        ],
    )
    def test_keeps_the_exit_code(self, held: Kit, command: str, code: int) -> None:
        assert held.run(held.shell(command=command))["exit_code"] == code

    def test_names_the_line_of_an_error_as_the_shell_does(self, held: Kit) -> None:
        assert "bash: line 2: nosuch: command not found" in held.run(held.text(command="true\nnosuch"))

    def test_long_output_is_cut_and_kept_in_a_private_file(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="seq 100000", max_output=300))
        assert found["truncated"] is True
        assert len(found["head"]) + len(found["tail"]) == 300
        assert found["head"].startswith("1\n2\n")
        assert found["tail"].endswith("99999\n100000\n")
        spill = Path(found["spill"])
        assert spill.read_text() == "".join(f"{number}\n" for number in range(1, 100_001))
        assert spill.stat().st_mode & 0o777 == 0o600
        assert kit.run(kit.shell(command=f"tail -n 1 {spill}"))["output"] == "100000\n"
        kit.close()
        assert not spill.exists()

    def test_how_much_of_it_is_from_the_beginning_can_be_said(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="seq 100000", max_output=300, head_share=0.1))
        assert (len(found["head"]), len(found["tail"])) == (30, 270)
        assert "head_share must be between 0 and 1" in kit.run(kit.text(command="true", head_share=2))

    def test_several_commands_run_one_after_the_other(self, held: Kit) -> None:
        found = held.run(held.shell(command="echo a; exit 3", then=["echo b > b", "cat b; cd /nowhere"]))
        assert [one["exit_code"] for one in found["results"]] == [3, 0, 1]
        assert found["results"][2]["output"].startswith("b\n")
        told = held.run(held.text(command="echo a; exit 3", then=["echo b"]))
        assert told == "$ echo a; exit 3\na\n[exit code 3]\n\n$ echo b\nb"

    def test_the_time_limit_is_for_each_of_them(self, held: Kit) -> None:
        outcome = held.run(held.call("shell", {"command": "echo a", "then": ["sleep 9", "echo c"], "timeout": 0.3}))
        assert (outcome.result.is_error, outcome.result.error_kind) == (True, "timeout")
        assert outcome.result.text.endswith("$ echo c\nc")

    @pytest.mark.parametrize("other", [{"background": True}, {"yield_after": 1}, {"tty": True}, {"stdin": "x"}])
    def test_several_commands_are_not_typed_into(self, kit: Kit, other: dict[str, Any]) -> None:
        assert "then does not go with" in kit.run(kit.text(command="true", then=["true"], **other))

    def test_all_of_several_commands_are_looked_at_first(self, kit: Kit) -> None:
        assert "a command cannot hold a NUL byte" in kit.run(kit.text(command="touch made", then=["a\0b"]))
        assert "then has 50 lines" in kit.run(kit.text(command="touch made", then=["true"] * 50))
        assert kit.run(kit.text(command="ls")) == "(no output)"

    def test_streams_can_be_kept_apart(self, tmp_path: Path) -> None:
        kit = kit_of(tmp_path, SandboxLevel.NONE, separate=True)
        found = kit.run(kit.shell(command="echo out; echo err >&2"))
        kit.close()
        assert (found["stdout"], found["stderr"]) == ("out\n", "err\n")

    def test_a_flood_does_not_fill_memory(self, held: Kit) -> None:
        held.run(held.shell(command="true"))
        before = memory()
        found = held.run(held.shell(command="yes 0123456789abcdef | head -c 200000000", timeout=60))
        assert found["total_bytes"] == 200_000_000
        assert found["spill_is_whole"] is False
        assert memory() - before < 48 * 1024 * 1024

    def test_what_the_sandbox_forbids_is_explained(self, tmp_path: Path) -> None:
        kit = kit_of(tmp_path, SandboxLevel.BUBBLEWRAP)
        (kit.work / ".git").mkdir()
        said = kit.run(kit.text(command="touch .git/x"))
        kit.close()
        assert "the sandbox lets only the workspace be written, without .git" in said


class TestWords:
    def test_of_a_program_are_taken_as_they_are(self, held: Kit) -> None:
        assert held.run(held.shell(argv=["printf", "%s|", "a b", "$HOME", "*"]))["output"] == "a b|$HOME|*|"

    def test_standard_input_is_empty_without_any(self, kit: Kit) -> None:
        assert kit.run(kit.shell(command="cat; echo done", timeout=20))["output"] == "done\n"

    def test_standard_input_is_what_was_given(self, kit: Kit) -> None:
        text = "ä" * 200_000
        assert kit.run(kit.shell(command="wc -c", stdin=text, timeout=20))["output"].strip() == "400000"

    def test_input_that_nobody_reads_does_no_harm(self, held: Kit) -> None:
        assert held.run(held.shell(command="exec true", stdin="x" * 500_000))["exit_code"] == 0

    def test_variables_are_for_the_command_only(self, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_API_KEY", "sk-nobody0123456789abcdef")
        found = kit.run(kit.shell(command="echo $MINE; env", env={"MINE": "yes", "LD_PRELOAD": "/nothing/there.so"}))
        assert found["exit_code"] == 0
        assert "yes\n" in found["output"]
        assert "MY_API_KEY" not in found["output"]

    def test_a_loader_variable_never_reaches_what_makes_the_sandbox(self, kit: Kit, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        found = kit.run(kit.shell(argv=["true"], env={"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(seen)}))
        assert found["exit_code"] == 0
        made = [path for path in tmp_path.iterdir() if path.name.startswith("seen")]
        assert not made or found["sandbox"] == "none"

    def test_a_terminal_is_one(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="test -t 0 && test -t 1 && echo yes; stty size", tty=True, timeout=20))
        assert found["output"] == "yes\n40 120\n"


class TestFolders:
    def test_a_change_of_folder_is_kept(self, kit: Kit) -> None:
        (kit.work / "sub").mkdir()
        assert kit.run(kit.shell(command="cd sub; exit 1"))["cwd"] == "sub"
        assert kit.run(kit.shell(command="pwd"))["output"].strip() == str(kit.work / "sub")
        assert kit.run(kit.shell(command="cd .."))["cwd"] == "."

    def test_another_root_is_part_of_the_workspace(self, held: Kit) -> None:
        other = str(held.work.parent / "other")
        assert held.run(held.shell(command=f"cd {other}; touch here"))["cwd"] == other
        assert held.run(held.shell(command="ls"))["output"] == "here\n"

    def test_a_folder_outside_is_not_kept(self, held: Kit) -> None:
        found = held.run(held.shell(command="cd /usr"))
        assert found["cwd"] == "."
        assert "/usr is not a folder of the workspace" in found["notes"][0]

    def test_a_folder_that_is_gone_is_the_first_one_again(self, held: Kit) -> None:
        held.run(held.shell(command="mkdir sub; cd sub"))
        (held.work / "sub").rmdir()
        assert held.run(held.shell(command="pwd"))["output"].strip() == str(held.work)

    def test_a_strange_name_does_no_harm(self, held: Kit) -> None:
        held.run(held.shell(command="mkdir -p 'a b'$'\\n''c'; cd 'a b'*"))
        assert held.run(held.shell(command="echo ok"))["output"] == "ok\n"

    def test_a_restart_goes_back_and_ends_everything(self, held: Kit) -> None:
        async def work() -> None:
            await held.shell(command="mkdir -p sub; cd sub")
            await held.shell(command="sleep 31401", background=True, yield_after=0.3)
            assert processes("31401")
            assert "first folder" in await held.text(restart=True)
            assert not processes("31401")
            assert (await held.shell(command="pwd"))["output"].strip() == str(held.work)

        held.run(work())


DAEMONS = (
    "(setsid sleep {word} & ); setsid -f sleep {word} 2>/dev/null; (trap '' TERM HUP INT; exec sleep {word}) & "
    "nohup sleep {word} >/dev/null 2>&1 & sleep {word}"
)


def _groups() -> list[str]:
    """The groups that limit the processes of commands, where this system has them."""
    above = _parent_group()
    return [] if above is None else sorted(path.name for path in above.glob(f"toolglot-{os.getpid()}-*"))


class TestTheEnd:
    def test_a_limit_of_time_ends_everything_at_once(self, kit: Kit) -> None:
        start = time.monotonic()
        outcome = kit.run(kit.call("shell", {"command": DAEMONS.format(word="31402"), "timeout": 0.4}))
        took = time.monotonic() - start
        assert not processes("31402")
        assert (outcome.result.error_kind, outcome.result.data["ended"]) == ("timeout", "timeout")
        assert "ended after 0." in text_of(outcome)
        assert took < 2

    def test_what_a_command_leaves_running_ends_with_it(self, kit: Kit) -> None:
        found = kit.run(kit.shell(command="setsid sleep 31403 >/dev/null 2>&1 & (sleep 31403 &) ; echo done"))
        assert (found["output"], found["ended"]) == ("done\n", "")
        assert not processes("31403")

    def test_silence_ends_it_where_that_was_asked_for(self, held: Kit) -> None:
        found = held.run(held.shell(command="for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 60", inactivity_timeout=0.6))
        assert (found["ended"], found["output"]) == ("inactivity", "1\n2\n3\n")

    def test_whoever_stops_waiting_ends_it(self, kit: Kit) -> None:
        async def work() -> None:
            task = asyncio.create_task(kit.call("shell", {"command": DAEMONS.format(word="31404")}))
            until = time.monotonic() + 10
            while not processes("31404") and time.monotonic() < until:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            until = time.monotonic() + 2
            while processes("31404") and time.monotonic() < until:
                await asyncio.sleep(0.005)
            assert not processes("31404")

        kit.run(work())

    def test_many_limits_of_time_leave_nothing_behind(self, held: Kit) -> None:
        async def work() -> None:
            await held.shell(command="true")
            before = open_handles()
            for _ in range(5):
                many = [held.shell(command=DAEMONS.format(word="31405"), timeout=0.15) for _ in range(8)]
                assert {found["ended"] for found in await asyncio.gather(*many)} == {"timeout"}
            assert not processes("31405")
            assert open_handles() <= before + 2

        held.run(work())

    @pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
    @pytest.mark.parametrize("background", [False, True], ids=["waited for", "background"])
    def test_a_command_that_cannot_be_started_gives_its_handles_back(
        self, kit: Kit, background: bool, tty: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kernel says no when everything is prepared; groups of processes go too."""

        def refuse(*_: object, **__: object) -> None:
            raise OSError(7, "Argument list too long")

        async def work() -> None:
            await kit.shell(command="true")
            before, groups = open_handles(), _groups()
            with monkeypatch.context() as patched:
                patched.setattr("toolglot.builtin.shell.session.subprocess", SimpleNamespace(Popen=refuse))
                for _ in range(10):
                    outcome = await kit.call("shell", {"command": "true", "background": background, "tty": tty})
                    said = text_of(outcome)
                    assert (outcome.result.error_kind, said) == (
                        "execution",
                        "the command could not be started: Argument list too long",
                    )
            assert open_handles() <= before + 2
            assert set(_groups()) <= set(groups)
            assert (await kit.shell(command="echo fine"))["output"] == "fine\n"

        kit.run(work())

    def test_more_variables_than_the_kernel_takes_cost_no_handles(self, tmp_path: Path) -> None:
        kit = kit_of(tmp_path, SandboxLevel.BUBBLEWRAP)
        much = {f"V{number}": "x" * 32_000 for number in range(100)}

        async def work() -> None:
            await kit.shell(command="true")
            before = open_handles()
            for _ in range(10):
                assert "could not be started" in await kit.text(command="true", env=much)
            assert open_handles() <= before + 2

        kit.run(work())
        kit.close()

    def test_a_command_that_is_one_too_many_gives_its_handles_back(self, kit: Kit) -> None:
        async def work() -> None:
            await asyncio.gather(*[kit.shell(command="sleep 31408", background=True) for _ in range(16)])
            before = 0
            for number in range(20):
                outcome = await kit.call("shell", {"command": "true", "background": True})
                assert outcome.result.error_kind == "limit"
                before = before if number > 3 else open_handles()
            assert open_handles() <= before + 2

        kit.run(work())

    def test_closing_the_toolbox_ends_what_runs(self, kit: Kit) -> None:
        kit.run(kit.shell(command=DAEMONS.format(word="31406"), background=True, yield_after=0.3))
        assert processes("31406")
        close_shell(kit.box)
        assert not processes("31406")
        assert "conversation is over" in kit.run(kit.text(command="true"))
        assert [path.name for path in (kit.state / "shell").iterdir()] == ["output"]


ORPHANS = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from shell_kit import Kit, unavailable_reason
from toolglot.builtin.shell import SandboxLevel

async def work():
    for level in (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK, SandboxLevel.NONE):
        if level is SandboxLevel.NONE or not unavailable_reason(level):
            base = Path(sys.argv[2]) / level.name
            base.mkdir()
            await Kit(base, level).shell(command=sys.argv[3], background=True, yield_after=0.3)
    print("started", flush=True)
    if sys.argv[4] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(work())
"""


@pytest.mark.parametrize("end", ["returned", "killed"])
def test_nothing_outlives_the_process_however_it_ends(tmp_path: Path, end: str) -> None:
    words = [str(Path(__file__).parent), str(tmp_path), DAEMONS.format(word=f"3141{len(end)}"), end]
    done = subprocess.run([sys.executable, "-c", ORPHANS, *words], capture_output=True, text=True, timeout=60, check=False)
    assert "started" in done.stdout, done.stderr
    until = time.monotonic() + 5
    while processes(f"3141{len(end)}") and time.monotonic() < until:
        time.sleep(0.01)
    assert not processes(f"3141{len(end)}")


class TestTheBackground:
    def test_a_life(self, kit: Kit) -> None:
        async def work() -> None:
            started = await kit.shell(command="echo ready; while read line; do echo got $line; done; echo end", background=True)
            handle = started["handle"]
            assert started["running"] is True
            assert "running" in await kit.text("shell_list")
            seen = started["output"]
            until = time.monotonic() + 10
            while "ready" not in seen and time.monotonic() < until:
                seen += (await kit.data("shell_output", handle=handle, timeout=0.05))["output"]
            found = await kit.data("shell_output", handle=handle, input="one\ntwo\n", timeout=0.3)
            assert found["output"] == "got one\ngot two\n"
            assert (await kit.data("shell_output", handle=handle))["output"] == ""
            assert (await kit.data("shell_output", handle=handle, tail_lines=1))["output"] == "got two\n"
            assert (await kit.data("shell_output", handle=str(started["pid"]), tail_lines=9, filter="^got t"))[
                "output"
            ] == "got two\n"
            killed = await kit.data("shell_kill", handle=handle)
            assert (killed["running"], killed["ended"], killed["exit_code"]) == (False, "killed", 137)
            assert "had ended before" in await kit.text("shell_kill", handle=handle)
            assert "takes no input" in await kit.text("shell_output", handle=handle, input="x")

        kit.run(work())

    def test_waiting_ends_with_the_command(self, held: Kit) -> None:
        async def work() -> None:
            handle = (await held.shell(command="sleep 0.3; echo done; exit 7", background=True))["handle"]
            found = await held.data("shell_output", handle=handle, wait=True)
            assert (found["output"], found["exit_code"], found["running"]) == ("done\n", 7, False)
            assert "exit code 7" in await held.text("shell_list")

        held.run(work())

    def test_a_command_that_takes_longer_goes_on(self, held: Kit) -> None:
        async def work() -> None:
            found = await held.shell(command="echo a; sleep 0.5; echo b", yield_after=0.3)
            assert (found["running"], found["output"]) == (True, "a\n")
            rest = await held.data("shell_output", handle=found["handle"], wait=True)
            assert (rest["output"], rest["exit_code"]) == ("b\n", 0)
            short = await held.shell(command="echo a", yield_after=10)
            assert (short["running"], short["handle"], short["exit_code"]) == (False, "", 0)

        held.run(work())

    def test_a_terminal_takes_keys(self, kit: Kit) -> None:
        async def work() -> None:
            command = "trap 'echo caught' INT; echo ready; while :; do sleep 0.05; done"
            handle = (await kit.shell(command=command, tty=True, yield_after=0.5))["handle"]
            seen = ""
            until = time.monotonic() + 10
            while "caught" not in seen and time.monotonic() < until:
                seen += (await kit.data("shell_output", handle=handle, input="\x03", timeout=0.2))["output"]
            assert "caught" in seen
            await kit.data("shell_kill", handle=handle)

        kit.run(work())

    def test_without_a_way_in_there_is_no_input(self, held: Kit) -> None:
        async def work() -> None:
            handle = (await held.shell(command="sleep 20", yield_after=0.1))["handle"]
            assert "background=true or tty=true" in await held.text("shell_output", handle=handle, input="x")

        held.run(work())

    def test_there_is_a_limit(self, held: Kit) -> None:
        async def work() -> None:
            many = [held.shell(command="sleep 31407", background=True) for _ in range(16)]
            assert len({found["handle"] for found in await asyncio.gather(*many)}) == 16
            outcome = await held.call("shell", {"command": "true"})
            assert (outcome.result.error_kind, "shell_kill" in text_of(outcome)) == ("limit", True)

        held.run(work())
        held.close()
        assert not processes("31407")

    def test_who_waits_is_told_how_far_it_is(self, held: Kit) -> None:
        held.run(held.shell(command="echo building; sleep 1.3"))
        assert held.progress == ["building"]

    def test_an_unknown_handle_is_answered_with_those_that_run(self, held: Kit) -> None:
        async def work() -> None:
            handle = (await held.shell(command="sleep 20", background=True))["handle"]
            assert f"running are {handle}" in await held.text("shell_output", handle="nope")
            await held.data("shell_kill", handle=handle)
            assert "nothing is running" in await held.text("shell_kill", handle="77")

        held.run(work())


class TestAsking:
    def test_nobody_there_means_no(self, held: Kit) -> None:
        outcome = held.run(held.call("shell", {"command": "touch escaped", "escalate": True}))
        assert (outcome.result.error_kind, (held.work / "escaped").exists()) == ("not_allowed", False)

    @pytest.mark.parametrize("answer", ["no", "", "maybe", ["no"], []])
    def test_anything_but_yes_means_no(self, tmp_path: Path, answer: Any) -> None:
        kit = kit_of(tmp_path, SandboxLevel.BUBBLEWRAP, ask=lambda _: [answer])  # pyright: ignore[reportUnknownLambdaType]
        outcome = kit.run(kit.call("shell", {"command": "touch escaped", "escalate": True}))
        kit.close()
        assert (outcome.result.error_kind, (kit.work / "escaped").exists()) == ("rejected", False)

    def test_a_yes_runs_it_outside(self, tmp_path: Path) -> None:
        asked: list[UserQuestion] = []

        async def ask(questions: list[UserQuestion]) -> list[Any]:
            asked.extend(questions)
            return ["yes"]

        kit = kit_of(tmp_path, SandboxLevel.BUBBLEWRAP, ask=ask)
        target = tmp_path / "outside"
        found = kit.run(kit.shell(command=f"touch {target}", escalate=True, description="needs it"))
        kit.close()
        assert (found["sandbox"], target.exists()) == ("none", True)
        assert f"touch {target}" in asked[0].question
        assert "needs it" in asked[0].question

    def test_without_a_sandbox_every_command_is_asked_about(self, tmp_path: Path) -> None:
        asked: list[str] = []

        def approve(approval: ApprovalRequest) -> ApprovalAnswer:
            asked.append(approval.preview)
            return "no"

        kit = kit_of(tmp_path, SandboxLevel.NONE, approve=approve)
        outcome = kit.run(kit.call("shell", {"command": "touch x", "cwd": ".", "env": {"A": "b"}}))
        kit.close()
        assert (outcome.result.error_kind, asked) == ("rejected", ["touch x\nin: .\nwith: A=b"])
        assert not (kit.work / "x").exists()

    def test_with_a_sandbox_the_policy_decides(self, held: Kit) -> None:
        assert held.tools["shell"].approval is None
        assert held.tools["shell"].effects == {"read", "write", "execute"}
        assert held.tools["shell"].target is not None
        assert held.tools["shell"].target({"argv": ["rm", "-rf", "a b"]}) == "rm -rf 'a b'"

    @pytest.mark.parametrize(("answers", "written"), [(["yes", "yes"], True), (["yes", "no"], False), (["yes", ""], False)])
    def test_what_is_typed_into_a_command_outside_is_asked_about(
        self, tmp_path: Path, answers: list[str], written: bool
    ) -> None:
        """A yes to `bash` is none to everything that is typed into it."""
        asked: list[str] = []

        async def ask(questions: list[UserQuestion]) -> list[Any]:
            asked.extend(one.question for one in questions)
            return [answers[len(asked) - 1]]

        kit, target = kit_of(tmp_path, LEVELS[bool(unavailable_reason(SandboxLevel.BUBBLEWRAP))], ask=ask), tmp_path / "outside"

        async def work() -> str:
            handle = (await kit.shell(command="bash", background=True, escalate=True))["handle"]
            outcome = await kit.call("shell_output", {"handle": handle, "input": f"echo x > {target}; exit\n", "wait": True})
            assert await kit.text("shell_output", handle=handle)  # who only reads is not asked
            await kit.call("shell_kill", {"handle": handle})
            return outcome.result.error_kind or ""

        kind = kit.run(work())
        kit.close()
        assert (kind, target.exists()) == ("" if written else "rejected", written)
        assert len(asked) == 2
        assert f"echo x > {target}; exit" in asked[1]

    def test_what_is_typed_into_a_command_inside_is_not_asked_about(self, tmp_path: Path) -> None:
        asked: list[UserQuestion] = []

        async def ask(questions: list[UserQuestion]) -> list[Any]:
            asked.extend(questions)
            return ["no"]

        kit = kit_of(tmp_path, LEVELS[bool(unavailable_reason(SandboxLevel.BUBBLEWRAP))], ask=ask)

        async def work() -> dict[str, Any]:
            handle = (await kit.shell(command="cat", background=True))["handle"]
            found = await kit.data("shell_output", handle=handle, input="hello\n", timeout=0.5)
            await kit.call("shell_kill", {"handle": handle})
            return found

        assert (kit.run(work())["output"], asked) == ("hello\n", [])
        kit.close()


OBEYED = (".git", ".vscode")


@pytest.mark.parametrize("unprotected", [OBEYED, (".vscode",), ()], ids=str)
@pytest.mark.parametrize("level", LEVELS[:2], ids=lambda level: level.label)
def test_names_that_may_be_changed_may_be_changed_by_commands_too(
    tmp_path: Path, level: SandboxLevel, unprotected: tuple[str, ...]
) -> None:
    """Whether it is there before, is made by the command, or is below the folder that the command runs in."""
    if why := unavailable_reason(level):
        pytest.skip(f"{level.label} does not hold here: {why}")
    for folder in (tmp_path / ".git", tmp_path / "sub" / ".git"):
        folder.mkdir(parents=True)
        (folder / "config").write_text("old")
    own = builtins(tmp_path, options=BuiltinOptions(unprotected=unprotected, shell=ShellOptions(level=level)))
    executor = ToolExecutor(ToolRegistry(own.tools), ToolConfig(max_repeats=0), approve=lambda _: True)

    async def work() -> None:
        command = "for d in .git .vscode; do mkdir -p $d; echo new > $d/config; done; true"
        for cwd in (".", "sub"):
            outcome = await executor.run(ToolCall("c", "shell", {"command": command, "cwd": cwd}))
            assert outcome.ran, outcome.result.text

    asyncio.run(work())
    own.close()
    for place in (tmp_path, tmp_path / "sub"):
        for name in OBEYED:
            file = place / name / "config"
            is_new = file.exists() and file.read_text() == "new\n"
            assert is_new == (name in unprotected), file


class TestTheSandbox:
    def test_describes_itself(self) -> None:
        found = describe_sandbox()
        assert found["sandbox"] in ("bwrap+seccomp", "landlock+seccomp", "none")
        assert isinstance(found["reasons"], dict)

    def test_a_temporary_folder_lasts_from_command_to_command(self, kit: Kit) -> None:
        kit.run(kit.shell(command="echo kept > $TMPDIR/note"))
        assert kit.run(kit.shell(command="cat $TMPDIR/note"))["output"] == "kept\n"

    def test_network_is_there_where_it_is_allowed(self, tmp_path: Path) -> None:
        async def work(kit: Kit) -> dict[str, Any]:
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with server:
                return await kit.shell(command=f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")

        for level in LEVELS[:2]:
            kit = kit_of(tmp_path, level, network=True)
            assert "network" in kit.tools["shell"].effects
            assert kit.run(work(kit))["output"] == "connected\n"
            kit.close()

    def test_the_whole_system_is_no_workspace(self) -> None:
        box = ToolState(Workspace("/"))
        with pytest.raises(UsageError, match="choose a folder below"):
            shell_tools(box)
        box.workspace.close()

    def test_bubblewrap_of_the_workspace_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kit = kit_of(tmp_path, SandboxLevel.BUBBLEWRAP)
        fake = kit.work / "bwrap"
        fake.write_text("#!/bin/sh\necho fooled\n")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{kit.work}:/usr/bin:/bin")
        assert kit.run(kit.shell(command="echo real"))["output"] == "real\n"
        kit.close()
