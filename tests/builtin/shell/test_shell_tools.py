"""The four shell tools: results, timeouts, background commands, directories, approvals, and that nothing is
left behind.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shell_kit import Kit, count_fds, eventually, find_processes, resident_memory, text_of, unavailable_reason

from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.scopes import command_subjects
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.tools import close_shell, shell_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.confine import limits
from toolglot.confine.limits import _parent_groups, describe_limits  # pyright: ignore[reportPrivateUsage]
from toolglot.confine.private_dirs import ConversationDirectory
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import SandboxProbe, describe_sandbox
from toolglot.errors import UsageError
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import ApprovalRequest, Decision
from toolglot.values.messages import ToolCall
from toolglot.values.request import BUILTIN_TAG

LEVELS = [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK, SandboxLevel.NONE]


OpenKit = Callable[..., Kit]


@pytest.fixture
def open_kit(tmp_path: Path) -> Generator[OpenKit]:
    """Makes kits in one directory, and closes them."""
    kits: list[Kit] = []

    def open_kit(level: SandboxLevel | None, **options: Any) -> Kit:
        if level and (reason := unavailable_reason(level)):
            pytest.skip(f"{level.label} does not work here: {reason}")
        kits.append(Kit(tmp_path, level, **options))
        return kits[-1]

    yield open_kit
    for kit in kits:
        kit.close()


@pytest.fixture(params=LEVELS, ids=lambda level: level.label)
def kit(request: pytest.FixtureRequest, open_kit: OpenKit) -> Kit:
    return open_kit(request.param)


@pytest.fixture
def sandbox_kit(open_kit: OpenKit) -> Kit:
    """A kit of the best sandbox that works here."""
    return open_kit(next((level for level in LEVELS[:2] if not unavailable_reason(level)), LEVELS[1]))


class TestResults:
    async def test_data(self, kit: Kit) -> None:
        data = await kit.shell(command="echo out; echo err >&2; exit 3", description="tries")
        assert data["output"] == "out\nerr\n"
        assert (data["exit_code"], data["signal"], data["running"], data["timed_out"]) == (
            3,
            None,
            False,
            False,
        )
        assert (data["total_bytes"], data["total_lines"], data["description"]) == (8, 2, "tries")
        assert data["sandbox"] in ("bwrap+seccomp", "landlock+seccomp", "none")
        assert data["seconds"] > 0

    @pytest.mark.parametrize(
        ("command", "text"),
        [("echo hi", "hi"), ("true", "(no output)"), ("echo no >&2; exit 2", "no\n[exit code 2]")],
    )
    async def test_text(self, kit: Kit, command: str, text: str) -> None:
        notes = {
            SandboxLevel.LANDLOCK: "\n[sandbox: Landlock, weaker than bubblewrap]",
            SandboxLevel.NONE: "\n[sandbox: none]",
        }
        assert await kit.text(command=command) == text + notes.get(kit.level, "")

    async def test_a_command_gets_none_of_our_descriptors(self, kit: Kit) -> None:
        data = await kit.shell(command="ls -l /proc/self/fd | grep -c -- '->'")
        # three streams, the pipe for the directory, and what ls itself has open
        assert int(data["output"]) <= 5

    async def test_the_signal_that_ended_it(self, kit: Kit) -> None:
        data = await kit.shell(command="kill -9 $$")
        assert (data["exit_code"], data["signal"]) == (137, 9)

    @pytest.mark.parametrize(("command", "code"), [
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
    ])  # fmt: skip
    async def test_exit_codes(self, sandbox_kit: Kit, command: str, code: int) -> None:
        assert (await sandbox_kit.shell(command=command))["exit_code"] == code

    async def test_line_numbers_of_errors(self, sandbox_kit: Kit) -> None:
        assert "bash: line 2: nosuch: command not found" in await sandbox_kit.text(command="true\nnosuch")

    async def test_long_output_is_truncated_and_kept_in_a_private_file(self, kit: Kit) -> None:
        data = await kit.shell(command="seq 100000", max_output=300)
        assert data["truncated"] is True
        assert len(data["head"]) + len(data["tail"]) == 300
        assert data["head"].startswith("1\n2\n")
        assert data["tail"].endswith("99999\n100000\n")
        spill = Path(data["spill"])
        assert spill.read_text() == "".join(f"{number}\n" for number in range(1, 100_001))
        assert spill.stat().st_mode & 0o777 == 0o600
        assert (await kit.shell(command=f"tail -n 1 {spill}"))["output"] == "100000\n"
        kit.close()
        assert not spill.exists()

    async def test_the_fraction_of_the_head(self, kit: Kit) -> None:
        data = await kit.shell(command="seq 100000", max_output=300, head_share=0.1)
        assert (len(data["head"]), len(data["tail"])) == (30, 270)

    async def test_a_flood_of_output_does_not_fill_memory(self, sandbox_kit: Kit) -> None:
        await sandbox_kit.shell(command="true")
        before = resident_memory()
        data = await sandbox_kit.shell(command="yes 0123456789abcdef | head -c 200000000", timeout=60)
        assert data["total_bytes"] == 200_000_000
        assert data["spill_is_whole"] is False
        assert resident_memory() - before < 48 * 1024 * 1024

    async def test_a_failure_because_of_the_sandbox_is_explained(self, open_kit: OpenKit) -> None:
        kit = open_kit(SandboxLevel.BUBBLEWRAP)
        (kit.work / ".git").mkdir()
        text = await kit.text(command="touch .git/x")
        assert "only the workspace is writable in the sandbox, except .git" in text


class TestSeveralCommands:
    async def test_they_run_one_after_the_other(self, sandbox_kit: Kit) -> None:
        data = await sandbox_kit.shell(command="echo a; exit 3", then=["echo b > b", "cat b; cd /nowhere"])
        assert [result["exit_code"] for result in data["results"]] == [3, 0, 1]
        assert data["results"][2]["output"].startswith("b\n")
        text = await sandbox_kit.text(command="echo a; exit 3", then=["echo b"])
        assert text == "$ echo a; exit 3\na\n[exit code 3]\n\n$ echo b\nb"

    async def test_each_has_its_timeout(self, sandbox_kit: Kit) -> None:
        outcome = await sandbox_kit.call(
            "shell", {"command": "echo a", "then": ["sleep 9", "echo c"], "timeout": 0.3}
        )
        assert (outcome.result.is_error, outcome.result.error_kind) == (True, "timeout")
        assert outcome.result.text.endswith("$ echo c\nc")

    @pytest.mark.parametrize(
        "other", [{"background": True}, {"yield_after": 1}, {"tty": True}, {"stdin": "x"}]
    )
    async def test_they_run_in_the_foreground_without_input(self, kit: Kit, other: dict[str, Any]) -> None:
        assert "then works only for commands that run in the foreground" in await kit.text(
            command="true", then=["true"], **other
        )

    async def test_all_are_checked_before_the_first_runs(self, kit: Kit) -> None:
        assert "contains a NUL byte" in await kit.text(command="touch made", then=["a\0b"])
        assert "then has 50 lines" in await kit.text(command="touch made", then=["true"] * 50)
        assert (await kit.shell(command="ls"))["output"] == ""


class TestInput:
    async def test_arguments_are_passed_as_they_are(self, sandbox_kit: Kit) -> None:
        assert (await sandbox_kit.shell(argv=["printf", "%s|", "a b", "$HOME", "*"]))[
            "output"
        ] == "a b|$HOME|*|"

    async def test_stdin_is_empty_by_default(self, kit: Kit) -> None:
        assert (await kit.shell(command="cat; echo done", timeout=20))["output"] == "done\n"

    async def test_stdin(self, kit: Kit) -> None:
        text = "ä" * 200_000
        assert (await kit.shell(command="wc -c", stdin=text, timeout=20))["output"].strip() == "400000"

    async def test_stdin_that_nobody_reads(self, sandbox_kit: Kit) -> None:
        assert (await sandbox_kit.shell(command="exec true", stdin="x" * 500_000))["exit_code"] == 0

    async def test_variables_are_for_the_command_only(
        self, kit: Kit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_API_KEY", "sk-nobody0123456789abcdef")
        data = await kit.shell(
            command="echo $MINE; env", env={"MINE": "yes", "LD_PRELOAD": "/nothing/there.so"}
        )
        assert data["exit_code"] == 0
        assert "yes\n" in data["output"]
        assert "MY_API_KEY" not in data["output"]

    async def test_a_loader_variable_never_reaches_the_program_that_makes_the_sandbox(
        self, kit: Kit, tmp_path: Path
    ) -> None:
        log = tmp_path / "log"
        data = await kit.shell(argv=["true"], env={"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(log)})
        assert data["exit_code"] == 0
        logs = [path for path in tmp_path.iterdir() if path.name.startswith("log")]
        assert not logs or data["sandbox"] == "none"

    async def test_a_terminal(self, kit: Kit) -> None:
        data = await kit.shell(command="test -t 0 && test -t 1 && echo yes; stty size", tty=True, timeout=20)
        assert data["output"] == "yes\n40 120\n"


class TestDirectories:
    async def test_cd_lasts(self, kit: Kit) -> None:
        (kit.work / "sub").mkdir()
        assert (await kit.shell(command="cd sub; exit 1"))["cwd"] == "sub"
        assert (await kit.shell(command="pwd"))["output"].strip() == str(kit.work / "sub")
        assert (await kit.shell(command="cd .."))["cwd"] == "."

    async def test_another_root_is_part_of_the_workspace(self, sandbox_kit: Kit) -> None:
        other = str(sandbox_kit.work.parent / "other")
        assert (await sandbox_kit.shell(command=f"cd {other}; touch here"))["cwd"] == other
        assert (await sandbox_kit.shell(command="ls"))["output"] == "here\n"

    async def test_a_directory_outside_is_not_kept(self, sandbox_kit: Kit) -> None:
        data = await sandbox_kit.shell(command="cd /usr")
        assert data["cwd"] == "."
        assert "/usr is not a directory of the workspace" in data["notes"][0]

    async def test_a_deleted_directory_is_left(self, sandbox_kit: Kit) -> None:
        await sandbox_kit.shell(command="mkdir sub; cd sub")
        (sandbox_kit.work / "sub").rmdir()
        assert (await sandbox_kit.shell(command="pwd"))["output"].strip() == str(sandbox_kit.work)

    async def test_a_strange_name(self, sandbox_kit: Kit) -> None:
        await sandbox_kit.shell(command="mkdir -p 'a b'$'\\n''c'; cd 'a b'*")
        assert (await sandbox_kit.shell(command="echo ok"))["output"] == "ok\n"

    async def test_restart_kills_everything_and_goes_back(self, sandbox_kit: Kit) -> None:
        await sandbox_kit.shell(command="mkdir -p sub; cd sub")
        await sandbox_kit.shell(command="sleep 31401", background=True)
        assert await eventually(lambda: bool(find_processes("31401")))
        assert "All commands were killed" in await sandbox_kit.text(restart=True)
        assert not find_processes("31401")
        assert (await sandbox_kit.shell(command="pwd"))["output"].strip() == str(sandbox_kit.work)


DAEMONS = (
    "(setsid sleep {word} & ); setsid -f sleep {word} 2>/dev/null; (trap '' TERM HUP INT; exec sleep {word}) "
    "& "
    "nohup sleep {word} >/dev/null 2>&1 & sleep {word}"
)


def list_cgroups() -> list[str]:
    """Return the cgroups of commands, where this system has them."""
    return sorted(
        str(path) for parent, _ in _parent_groups() for path in parent.glob(f"toolglot-{os.getpid()}-*")
    )


class TestEnds:
    async def test_a_timeout_kills_everything(self, kit: Kit) -> None:
        outcome = await kit.call("shell", {"command": DAEMONS.format(word="31402"), "timeout": 0.4})
        assert not find_processes("31402")
        assert (outcome.result.error_kind, outcome.result.data["ended"]) == ("timeout", "timeout")
        assert "killed after 0." in text_of(outcome)

    async def test_what_a_command_leaves_running_ends_with_it(self, kit: Kit) -> None:
        data = await kit.shell(command="setsid sleep 31403 >/dev/null 2>&1 & (sleep 31403 &) ; echo done")
        assert (data["output"], data["ended"]) == ("done\n", "")
        assert not find_processes("31403")

    @pytest.mark.parametrize("trick", ["kill -9 $PPID", "prlimit --pid $PPID --nofile=1:1 --cpu=1:1"])
    async def test_attacks_on_its_parent_let_nothing_survive(self, kit: Kit, trick: str) -> None:
        command = f"(setsid sleep 31411 &); sleep 31411 & {trick} 2>/dev/null; sleep 31411"
        data = await kit.shell(command=command, timeout=0.5)
        assert data["exit_code"] == 137
        assert not find_processes("31411")

    async def test_too_much_memory_is_named(self, open_kit: OpenKit) -> None:
        if describe_limits()["memory"] != "cgroup":
            pytest.skip(
                "cgroups cannot be created here: each process has a limit, and programs say so themselves"
            )
        kit = open_kit(SandboxLevel.LANDLOCK, memory=50_000_000)
        data = await kit.shell(command="head -c 100000000 /dev/zero | tail")
        assert data["exit_code"] == 137
        assert "it needed more memory than its limit of 0.1 GB" in data["notes"]

    async def test_a_command_that_fills_the_disk_is_killed(
        self, sandbox_kit: Kit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        free = iter([10_000, 10_000, 10_000, 10_000])  # as long as it starts

        def count_down(_: Path) -> int:
            return next(free, 4_999)

        monkeypatch.setattr(limits, "_free_disk", count_down)
        outcome = await sandbox_kit.call("shell", {"command": "sleep 60"})
        assert outcome.result.data["ended"] == "disk"
        assert "with everything it started: the disk was nearly full" in text_of(outcome)

    async def test_inactivity(self, sandbox_kit: Kit) -> None:
        command = "for i in 1 2 3; do echo $i; sleep 0.1; done; sleep 60"
        data = await sandbox_kit.shell(command=command, inactivity_timeout=0.6)
        assert (data["ended"], data["output"]) == ("inactivity", "1\n2\n3\n")

    async def test_cancellation(self, kit: Kit) -> None:
        task = asyncio.create_task(kit.call("shell", {"command": DAEMONS.format(word="31404")}))
        assert await eventually(lambda: bool(find_processes("31404")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await eventually(lambda: not find_processes("31404"))

    async def test_cancellation_while_it_starts(self, kit: Kit) -> None:
        for milliseconds in range(0, 60, 3):
            task = asyncio.create_task(kit.call("shell", {"command": "sleep 31409"}))
            await asyncio.sleep(milliseconds / 1000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.sleep(0.5)  # the last one may still be starting
        assert await eventually(lambda: not find_processes("31409"))

    async def test_many_timeouts_leave_nothing_behind(self, sandbox_kit: Kit) -> None:
        await sandbox_kit.shell(command="true")
        before = count_fds()
        for _ in range(5):
            commands = [
                sandbox_kit.shell(command=DAEMONS.format(word="31405"), timeout=0.15) for _ in range(8)
            ]
            assert {data["ended"] for data in await asyncio.gather(*commands)} == {"timeout"}
        assert not find_processes("31405")
        assert count_fds() <= before + 2

    @pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
    @pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
    async def test_a_failed_start_leaves_nothing_behind(
        self, kit: Kit, background: bool, tty: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(7, "Argument list too long")

        await kit.shell(command="true")
        before, groups = count_fds(), list_cgroups()
        with monkeypatch.context() as patched:
            patched.setattr("toolglot.builtin.shell.session.start_program", refuse)
            for _ in range(10):
                outcome = await kit.call("shell", {"command": "true", "background": background, "tty": tty})
                assert text_of(outcome) == "the command could not be started: Argument list too long"
                assert (outcome.result.error_kind, outcome.result.error_code) == (
                    "execution",
                    "sandbox_unavailable",
                )
        assert count_fds() <= before + 2
        assert set(list_cgroups()) <= set(groups)
        assert (await kit.shell(command="echo fine"))["output"] == "fine\n"

    async def test_more_variables_than_the_kernel_takes(self, open_kit: OpenKit) -> None:
        kit = open_kit(SandboxLevel.BUBBLEWRAP)
        variables = {f"V{number}": "x" * 32_000 for number in range(100)}
        await kit.shell(command="true")
        before = count_fds()
        for _ in range(10):
            assert "Argument list too long" in await kit.text(command="true", env=variables)
        assert count_fds() <= before + 2

    async def test_the_limit_of_running_commands(self, kit: Kit) -> None:
        started = await asyncio.gather(
            *[kit.shell(command="sleep 31408", background=True) for _ in range(16)]
        )
        assert len({data["handle"] for data in started}) == 16
        assert await eventually(lambda: len(find_processes("31408")) >= 16)
        before = 0
        for number in range(20):
            outcome = await kit.call("shell", {"command": "true", "background": True})
            assert (outcome.result.error_kind, outcome.result.error_code) == ("limit", "too_many_sessions")
            before = before if number > 3 else count_fds()
        assert count_fds() <= before + 2
        kit.close()
        assert not find_processes("31408")

    async def test_closing_ends_what_runs(self, kit: Kit) -> None:
        await kit.shell(command=DAEMONS.format(word="31406"), background=True)
        assert await eventually(lambda: bool(find_processes("31406")))
        close_shell(kit.state)
        assert not find_processes("31406")
        assert "conversation is over" in await kit.text(command="true")
        assert list((kit.state_dir / "shell").iterdir()) == []


ORPHANS = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from shell_kit import Kit, unavailable_reason
from toolglot.confine.sandbox import SandboxLevel

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
def test_nothing_outlives_the_process(tmp_path: Path, end: str) -> None:
    word = f"3141{len(end)}"
    arguments = [str(Path(__file__).parent), str(tmp_path), DAEMONS.format(word=word), end]
    command = [sys.executable, "-c", ORPHANS, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "started" in process.stdout, process.stderr
    assert asyncio.run(eventually(lambda: not find_processes(word)))


class TestBackground:
    async def test_input_and_output(self, kit: Kit) -> None:
        started = await kit.shell(
            command="echo ready; while read line; do echo got $line; done; echo end", background=True
        )
        handle, seen = started["handle"], started["output"]
        assert started["running"] is True
        assert "running" in await kit.text("shell_list")

        async def is_ready() -> bool:
            nonlocal seen
            seen += (await kit.data("shell_output", handle=handle))["output"]
            return "ready" in seen

        assert await eventually(is_ready)
        data = await kit.data("shell_output", handle=handle, input="one\ntwo\n", timeout=0.3)
        assert data["output"] == "got one\ngot two\n"
        assert (await kit.data("shell_output", handle=handle))["output"] == ""
        assert (await kit.data("shell_output", handle=handle, tail_lines=1))["output"] == "got two\n"
        data = await kit.data("shell_output", handle=str(started["pid"]), tail_lines=9, filter="^got t")
        assert data["output"] == "got two\n"
        killed = await kit.data("shell_kill", handle=handle)
        assert (killed["running"], killed["ended"], killed["exit_code"]) == (False, "killed", 137)
        assert "had already ended" in await kit.text("shell_kill", handle=handle)
        outcome = await kit.call("shell_output", {"handle": handle, "input": "x"})
        assert outcome.result.error_code == "stdin_closed"

    async def test_waiting_ends_with_the_command(self, sandbox_kit: Kit) -> None:
        handle = (await sandbox_kit.shell(command="sleep 0.3; echo done; exit 7", background=True))["handle"]
        data = await sandbox_kit.data("shell_output", handle=handle, wait=True)
        assert (data["output"], data["exit_code"], data["running"]) == ("done\n", 7, False)
        assert "exit code 7" in await sandbox_kit.text("shell_list")

    async def test_a_command_that_takes_longer_continues_in_the_background(self, sandbox_kit: Kit) -> None:
        data = await sandbox_kit.shell(command="echo a; sleep 0.5; echo b", yield_after=0.3)
        assert (data["running"], data["output"]) == (True, "a\n")
        data = await sandbox_kit.data("shell_output", handle=data["handle"], wait=True)
        assert (data["output"], data["exit_code"]) == ("b\n", 0)
        data = await sandbox_kit.shell(command="echo a", yield_after=10)
        assert (data["running"], data["handle"], data["exit_code"]) == (False, "", 0)

    async def test_a_command_opens_its_own_terminal_and_no_other(self, kit: Kit) -> None:
        master, slave = os.openpty()
        try:
            attempts = (
                "(: <>$(tty)) && echo mine; (: <>/dev/tty) && echo mine too; (: "
                f"<>{os.ttyname(slave)}) && echo not mine"
            )
            data = await kit.shell(command=f"exec 2>&-; {attempts}", tty=True)
        finally:
            os.close(master)
            os.close(slave)
        assert data["output"] == "mine\nmine too\n" + ("not mine\n" if data["sandbox"] == "none" else "")

    async def test_a_terminal_takes_control_characters(self, kit: Kit) -> None:
        command = "trap 'echo caught' INT; echo ready; while :; do sleep 0.05; done"
        data = await kit.shell(command=command, tty=True, yield_after=0.5)
        handle, seen = data["handle"], data["output"]

        async def shows(word: str, **arguments: Any) -> bool:
            nonlocal seen
            seen += (await kit.data("shell_output", handle=handle, **arguments))["output"]
            return word in seen

        assert await eventually(lambda: shows("ready"))  # without its trap, the shell would be killed
        assert await eventually(lambda: shows("caught", input="\x03", timeout=0.2))
        await kit.data("shell_kill", handle=handle)

    async def test_input_needs_a_background_command_or_a_terminal(self, sandbox_kit: Kit) -> None:
        handle = (await sandbox_kit.shell(command="sleep 20", yield_after=0.1))["handle"]
        outcome = await sandbox_kit.call("shell_output", {"handle": handle, "input": "x"})
        assert "in the background or with a terminal" in text_of(outcome)
        assert outcome.result.error_code == "stdin_closed"

    async def test_progress(self, sandbox_kit: Kit) -> None:
        await sandbox_kit.shell(command="echo building; sleep 1.3")
        assert sandbox_kit.progress == ["building"]

    async def test_an_unknown_session(self, sandbox_kit: Kit) -> None:
        handle = (await sandbox_kit.shell(command="sleep 20", background=True))["handle"]
        outcome = await sandbox_kit.call("shell_output", {"handle": "nope"})
        assert text_of(outcome) == f"there is no session 'nope'; running: {handle}"
        assert outcome.result.error_code == "session_not_found"
        await sandbox_kit.data("shell_kill", handle=handle)
        assert "nothing is running" in await sandbox_kit.text("shell_kill", handle="77")


class TestApproval:
    async def test_without_a_user_nothing_runs_outside(self, sandbox_kit: Kit) -> None:
        outcome = await sandbox_kit.call("shell", {"command": "touch escaped", "escalate": True})
        assert (outcome.result.is_error, (sandbox_kit.work / "escaped").exists()) == (True, False)

    @pytest.mark.parametrize("level", LEVELS[:2], ids=lambda level: level.label)
    @pytest.mark.parametrize("answer", [True, "always", "no", "maybe"])
    async def test_leaving_the_sandbox_is_asked_about_each_time_with_everything_that_counts(
        self, tmp_path: Path, open_kit: OpenKit, level: SandboxLevel, answer: Any
    ) -> None:
        requests: list[ApprovalRequest] = []

        def approve(request: ApprovalRequest) -> Decision:
            requests.append(request)
            return answer

        kit, target = open_kit(level, approve=approve), tmp_path / "outside"
        (kit.work / "vendor").mkdir()
        arguments = {
            "command": f"ls\nin: src; echo x >> {target}",
            "escalate": True,
            "cwd": "vendor",
            "env": {"PATH": f"{kit.work}/evil:/usr/bin:/bin", "A": "1\nin: src"},
            "stdin": "one\n$ ls",
            "login": True,
            "description": "list the files\n$ ls",
        }
        for count in (1, 2):  # "always" does not cover leaving the sandbox
            outcome = await kit.call("shell", arguments)
            assert len(requests) == count
        is_approved = answer in (True, "always")
        assert (target.exists(), outcome.result.error_kind) == (
            is_approved,
            None if is_approved else "rejected",
        )
        assert (requests[0].each_time, requests[0].reason) == (True, "it runs outside the sandbox")
        assert requests[0].preview.splitlines() == [
            "$ ls",
            f"> in: src; echo x >> {target}",
            "OUTSIDE THE SANDBOX, with all rights of the user",
            "in: vendor",
            f"with: PATH={kit.work}/evil:/usr/bin:/bin",
            "with: A=1␊in: src",
            "as a login shell, which reads the user's profile first",
            "input:",
            "| one",
            "| $ ls",
            "(without Enter at the end)",
            "the model's description: list the files␊$ ls",
        ]

    async def test_the_directory_of_an_earlier_command_is_shown(self, sandbox_kit: Kit) -> None:
        preview = sandbox_kit.tools["shell"].preview
        assert preview is not None
        (sandbox_kit.work / "vendor").mkdir()
        assert preview({"command": "./build.sh"}) == "$ ./build.sh"
        await sandbox_kit.shell(command="cd vendor")
        assert preview({"command": "./build.sh"}) == "$ ./build.sh\nin: vendor"
        assert preview({"command": "./build.sh", "cwd": "."}) == "$ ./build.sh"
        assert preview(
            {"restart": True, "argv": ["./build.sh"], "background": True, "tty": True}
        ).splitlines() == [
            *("kill all running commands first", "$ ./build.sh", "in the background", "in a terminal"),
        ]
        yielding = preview({"command": "./build.sh", "cwd": ".", "yield_after": 10.0})
        assert yielding == "$ ./build.sh\nin the background if it takes longer than 10 s"

    async def test_where_no_sandbox_works_every_command_needs_approval(
        self, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        previews: list[str] = []

        def approve(approval: ApprovalRequest) -> Decision:
            previews.append(approval.preview)
            return "no"

        probe = SandboxProbe(SandboxLevel.NONE)
        monkeypatch.setattr("toolglot.builtin.shell.manager.probe_sandbox", lambda *_: probe)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        command = {"command": "touch x", "cwd": ".", "env": {"A": "b"}}
        kit = open_kit(None, approve=approve)
        outcome = await kit.call("shell", command)
        assert (outcome.result.error_kind, previews) == ("rejected", ["$ touch x\nwith: A=b"])
        tools = [tool.replace(tags=[BUILTIN_TAG]) for tool in kit.tools.values()]
        kit.executor = ToolExecutor(ToolRegistry(tools), ToolConfig(ask=()))
        outcome = await kit.call("shell", command)
        assert outcome.result.error_code == "approval_required"
        assert "ShellOptions(level=SandboxLevel.NONE)" in outcome.result.text
        assert "ToolConfig(ask=" not in outcome.result.text
        assert not (kit.work / "x").exists()

    @pytest.mark.parametrize("escalate", [False, True])
    async def test_who_wants_no_sandbox_is_not_asked_each_time(
        self, open_kit: OpenKit, escalate: bool
    ) -> None:
        kit = open_kit(SandboxLevel.NONE)
        tools = [tool.replace(tags=[BUILTIN_TAG], scope=command_subjects) for tool in kit.tools.values()]
        for config in (ToolConfig(ask=()), ToolConfig(approve=["shell(echo *)"])):
            kit.executor = ToolExecutor(ToolRegistry(tools), config)
            assert "hi" in await kit.text(command="echo hi", escalate=escalate)

    def test_with_a_sandbox_the_policy_decides(self, sandbox_kit: Kit) -> None:
        shell = sandbox_kit.tools["shell"]
        assert (shell.approval, shell.effects) == (None, {"read", "write", "execute"})
        assert shell.target is not None
        assert shell.target({"argv": ["rm", "-rf", "a b"]}) == "rm -rf 'a b'"

    @pytest.mark.parametrize("level", LEVELS[:2], ids=lambda level: level.label)
    @pytest.mark.parametrize(
        ("escalate", "is_approved"), [(True, True), (True, False), (False, True), (False, False)]
    )
    async def test_what_is_typed_into_a_command_is_asked_about_like_a_command(
        self, tmp_path: Path, open_kit: OpenKit, level: SandboxLevel, escalate: bool, is_approved: bool
    ) -> None:
        requests: list[ApprovalRequest] = []

        def approve(request: ApprovalRequest) -> Decision:
            requests.append(request)
            return "always" if request.tool == "shell" else is_approved

        kit, handle = open_kit(level), "1"
        # the defaults are for built-in tools
        tools = [tool.replace(tags=[BUILTIN_TAG]) for tool in kit.tools.values()]
        kit.executor = ToolExecutor(ToolRegistry(tools), ToolConfig(max_repeats=0), approve=approve)
        target = (tmp_path if escalate else kit.work) / "typed"
        await kit.call("shell", {"command": "bash", "background": True, "escalate": escalate})
        outcome = await kit.call(
            "shell_output", {"handle": handle, "input": f"echo x > {target}; exit\n", "wait": is_approved}
        )
        assert await kit.text("shell_output", handle=handle)  # reading needs no approval
        await kit.call("shell_kill", {"handle": handle})
        assert (outcome.result.error_kind, target.exists()) == (
            None if is_approved else "rejected",
            is_approved,
        )
        assert [(request.tool, request.each_time) for request in requests] == [
            ("shell", escalate),
            ("shell_output", escalate),
        ]
        warning = ["OUTSIDE THE SANDBOX, with all rights of the user"] if escalate else []
        assert requests[1].preview.splitlines() == [
            "types into",
            "$ bash",
            *warning,
            "input:",
            f"| echo x > {target}; exit",
        ]


PROTECTED = (".git", ".vscode")


@pytest.mark.parametrize("unprotected", [PROTECTED, (".vscode",), ()], ids=str)
@pytest.mark.parametrize("level", LEVELS[:2], ids=lambda level: level.label)
async def test_unprotected_names_may_be_changed(
    tmp_path: Path, level: SandboxLevel, unprotected: tuple[str, ...]
) -> None:
    """Whether they exist before, are created by the command, or are below the directory in which it runs."""
    if reason := unavailable_reason(level):
        pytest.skip(f"{level.label} does not work here: {reason}")
    for directory in (tmp_path / ".git", tmp_path / "sub" / ".git"):
        directory.mkdir(parents=True)
        (directory / "config").write_text("old")
    tools = builtins(
        tmp_path, options=BuiltinOptions(unprotected=unprotected, shell=ShellOptions(level=level))
    )
    executor = ToolExecutor(ToolRegistry(tools.tools), ToolConfig(max_repeats=0), approve=lambda _: True)
    command = "for d in .git .vscode; do mkdir -p $d; echo new > $d/config; done; true"
    for cwd in (".", "sub"):
        outcome = await executor.run(ToolCall("c", "shell", {"command": command, "cwd": cwd}))
        assert outcome.ran, outcome.result.text
    tools.close()
    for file in (
        directory / name / "config" for directory in (tmp_path, tmp_path / "sub") for name in PROTECTED
    ):
        is_new = file.exists() and file.read_text() == "new\n"
        assert is_new == (file.parent.name in unprotected), file


class TestSandbox:
    def test_description(self) -> None:
        description = describe_sandbox()
        assert description["sandbox"] in ("bwrap+seccomp", "landlock+seccomp", "none")
        assert isinstance(description["reasons"], dict)

    async def test_the_temporary_directory_lasts(self, kit: Kit) -> None:
        await kit.shell(command="echo kept > $TMPDIR/note")
        assert (await kit.shell(command="cat $TMPDIR/note"))["output"] == "kept\n"

    @pytest.mark.parametrize("network", [False, True])
    @pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.label)
    async def test_without_network_programs_do_not_try_again(
        self, open_kit: OpenKit, level: SandboxLevel, network: bool
    ) -> None:
        kit = open_kit(level, network=network)
        output = (await kit.shell(command="echo $PIP_RETRIES $NPM_CONFIG_FETCH_RETRIES"))["output"]
        assert output.split() == ([] if network or level is SandboxLevel.NONE else ["0", "0"])

    @pytest.mark.parametrize("level", LEVELS[:2], ids=lambda level: level.label)
    async def test_a_conversation_does_not_see_the_output_of_another(
        self, open_kit: OpenKit, level: SandboxLevel
    ) -> None:
        first, second = open_kit(level), open_kit(level)
        spill = (await first.shell(command="seq 100000; echo SECRET > $TMPDIR/note", max_output=100))["spill"]
        abandoned = first.state_dir / "shell" / "toolglot-shell-dead" / "output"
        abandoned.mkdir(parents=True)
        (abandoned / "output-1.txt").write_text("SECRET\n")
        assert (await first.shell(command=f"tail -n 1 {spill}"))["output"] == "100000\n"
        other = Path(spill).parents[1]
        output = (
            await second.shell(command=f"cat {spill} {other}/tmp/note {other.parent}/*/*/*; ls {other}")
        )["output"]
        assert "100000" not in output
        assert "SECRET" not in output

    @pytest.mark.skipif(sys.platform != "linux", reason="needs the sandbox's directories")
    def test_the_files_of_a_dead_process_are_deleted(self, tmp_path: Path) -> None:
        """Those of a living one are not, whatever is in them."""
        living = ConversationDirectory(tmp_path / "living", "x-")
        dead = tmp_path / "living" / "x-dead"
        deep = "import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(1200)]"
        subprocess.run(
            ["bash", "-c", f'mkdir -p {dead}/locked/x; cd {dead}; python3 -c "{deep}"; chmod 0 locked'],
            check=True,
        )
        script = (
            "import sys; from pathlib import Path; from toolglot.confine.private_dirs import "
            "ConversationDirectory; "
        )
        script += "ConversationDirectory(Path(sys.argv[1]), 'x-').delete()"
        subprocess.run([sys.executable, "-c", script, str(tmp_path / "living")], check=True)
        assert list((tmp_path / "living").iterdir()) == [living.path]
        living.delete()
        assert list((tmp_path / "living").iterdir()) == []

    async def test_network_where_it_is_allowed(self, open_kit: OpenKit) -> None:
        async def work(kit: Kit) -> dict[str, Any]:
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with server:
                return await kit.shell(command=f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")

        for level in LEVELS[:2]:
            kit = open_kit(level, network=True)
            assert "network" in kit.tools["shell"].effects
            assert (await work(kit))["output"] == "connected\n"

    def test_the_whole_system_is_not_a_workspace(self) -> None:
        state = ToolState(Workspace("/"))
        with pytest.raises(UsageError, match="choose a directory below"):
            shell_tools(state)
        state.workspace.close()

    async def test_a_bubblewrap_in_the_workspace_is_not_used(
        self, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kit = open_kit(SandboxLevel.BUBBLEWRAP)
        fake = kit.work / "bwrap"
        fake.write_text("#!/bin/sh\necho fooled\n")
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{kit.work}:/usr/bin:/bin")
        assert (await kit.shell(command="echo real"))["output"] == "real\n"


def test_declarations(sandbox_kit: Kit) -> None:
    for tool in sandbox_kit.tools.values():
        properties = (tool.definition.parameters or {}).get("properties", {})
        assert len(properties) <= 8
        assert all(parameter.get("description") for parameter in properties.values())


# ---- as a model's own harness has it


async def test_escapes_are_kept_where_the_harness_keeps_them(sandbox_kit: Kit) -> None:
    command = r"printf 'a\033[1mb\033[0m\r\n\0c'"
    plain = await sandbox_kit.shell(command=command)
    raw = await sandbox_kit.shell(command=command, keep_escapes=True)
    assert (plain["output"], raw["output"]) == ("ab\n\ufffdc", "a\x1b[1mb\x1b[0m\r\n\ufffdc")
    assert (plain["total_lines"], raw["total_lines"]) == (2, 2)  # the last one has no end


async def test_a_session_whose_end_was_reported_can_be_forgotten(sandbox_kit: Kit) -> None:
    started = await sandbox_kit.shell(command="read; echo done", background=True)
    await asyncio.sleep(0.5)  # the call, which also looks for protected files, takes less than that
    arguments = {"handle": started["handle"], "timeout": 20, "forget_ended": True}
    ended = await sandbox_kit.data("shell_output", **arguments, input="\n")
    assert (ended["running"], ended["output"]) == (False, "done\n")
    assert ended["call_seconds"] <= ended["seconds"]
    unknown = await sandbox_kit.call("shell_output", arguments)
    assert unknown.result.error_code == "session_not_found"


async def test_a_long_foreground_command_is_not_listed_afterwards(sandbox_kit: Kit) -> None:
    assert (await sandbox_kit.shell(command="seq 1 90000"))["truncated"]
    assert await sandbox_kit.text("shell_list") == "There are no background commands."


async def test_a_template_stands_for_the_only_command_that_runs(sandbox_kit: Kit) -> None:
    for template in ("${id}", "<session>", "{{ handle }}", ""):
        unknown = await sandbox_kit.call("shell_output", {"handle": template})
        assert unknown.result.error_code == "session_not_found"
    first = await sandbox_kit.shell(command="read line; echo $line", background=True)
    read = await sandbox_kit.data("shell_output", handle="${id}")
    assert read["notes"] == [f"repaired: '${{id}}' is no handle; taken for {first['command']!r}"]
    refusals: list[tuple[str, str, dict[str, str]]] = [
        ("shell_output", "", {"input": "hi\n"}),
        ("shell_kill", "${id}", {}),
        ("shell_kill", "", {}),
    ]
    for name, template, arguments in refusals:
        refused = await sandbox_kit.call(name, {"handle": template, **arguments})
        assert text_of(refused) == f"there is no session {template!r}; running: {first['handle']}"
    typed = await sandbox_kit.data("shell_output", handle="${id}", input="hi\n", timeout=20)
    assert (typed["output"], typed["running"]) == ("hi\n", False)
    # it has ended, and there is no other
    assert (await sandbox_kit.data("shell_output", handle="<id>"))["exit_code"] == 0
    second, third = [await sandbox_kit.shell(command="sleep 60", background=True) for _ in range(2)]
    ambiguous = await sandbox_kit.call("shell_output", {"handle": "<id>"})
    assert text_of(ambiguous) == f"there is no session '<id>'; running: {second['handle']}, {third['handle']}"
    # no template
    assert (await sandbox_kit.call("shell_output", {"handle": "id"})).result.error_code == "session_not_found"
