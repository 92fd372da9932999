"""What is mounted in the workspace is what was looked at, whoever exchanges it meanwhile."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from play import LEVELS, USERS, give_to, play, visible_directory
from shell_kit import Kit, unavailable_reason

from toolglot.builtin.shell import session
from toolglot.builtin.shell.arguments import CommandOptions
from toolglot.confine import sandbox
from toolglot.confine.confined_open import open_beneath
from toolglot.confine.environment import safe_environment
from toolglot.confine.limits import remove_cgroups
from toolglot.confine.roots import Root
from toolglot.confine.sandbox import Confinement, Program, SandboxLevel, prepare_launch
from toolglot.confine.sandbox_probe import probe_level

TRIES = 8
# Exchanges a protected directory and a link to a secret, all the time, and makes them again if somebody
# removes them.
EXCHANGE = """
import ctypes, os, platform, sys, time
number = {"x86_64": 316, "aarch64": 276}[platform.machine()]
exchange, secret, pause = ctypes.CDLL(None).syscall, sys.argv[1], float(sys.argv[2])
while True:
    if exchange(number, -100, b".vscode", -100, b".link", 2) != 0:
        for make in (lambda: os.mkdir(".vscode"), lambda: os.symlink(secret, ".link")):
            try: make()
            except OSError: pass
    end = time.perf_counter() + pause
    while time.perf_counter() < end: pass
"""


@pytest.mark.parametrize("user", USERS)
def test_an_exchanged_directory_shows_no_secret_and_stops_no_command(user: str) -> None:
    base = Path(tempfile.mkdtemp(prefix="toolglot-race-", dir=visible_directory()))
    try:
        base.chmod(0o755)
        for name in ("home/.ssh", "work"):
            (base / name).mkdir(parents=True)
        (base / "home/.ssh/id").write_text("SECRET\n")
        (base / "work/exchange.py").write_text(EXCHANGE)
        give_to(user, base)
        exchange = f"exec /usr/bin/python3 exchange.py {base}/home/.ssh 0.001"
        calls: list[Any] = [["shell", {"command": exchange, "background": True}]]
        calls += [["shell", {"command": "cat .vscode/id; echo ran"}]] * TRIES
        environ = {"HOME": str(base / "home"), "TMPDIR": str(base)}
        [report] = play(
            user, {"environ": environ, "root": str(base / "work"), "level": LEVELS["bwrap"], "calls": calls}
        )
        assert [
            call["text"]
            for call in report[1:]
            if "SECRET" in call["text"] or "ran\n" not in f"{call['text']}\n"
        ] == []
    finally:
        shutil.rmtree(base)


needs_bubblewrap = pytest.mark.skipif(
    bool(unavailable_reason(SandboxLevel.BUBBLEWRAP)), reason="bubblewrap does not work here"
)


@needs_bubblewrap
def test_a_program_that_cannot_mount_by_descriptor_is_not_used(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    refusal = "echo 'bwrap: Unknown option --ro-bind-fd' >&2; exit 1"
    program.write_text(f'#!/bin/sh\ncase "$*" in *--ro-bind-fd*) {refusal};; esac\nexec bwrap "$@"\n')
    program.chmod(0o755)
    assert (
        probe_level(SandboxLevel.BUBBLEWRAP, str(program))
        == "it does not run: bwrap: Unknown option --ro-bind-fd"
    )


@needs_bubblewrap
@pytest.mark.parametrize(("exchanges", "is_run"), [(0, True), (3, True), (1000, False)])
async def test_a_command_starts_again_if_a_directory_was_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: int, is_run: bool
) -> None:
    kit = Kit(tmp_path, SandboxLevel.BUBBLEWRAP)
    (kit.work / ".vscode").mkdir()
    starts: list[int] = []

    def exchange_after_opening(root_fd: int, path: str, flags: int) -> int:
        if (kit.work / ".vscode").is_symlink():
            (kit.work / ".vscode").unlink()
            (kit.work / "real").rename(kit.work / ".vscode")
        starts.append(open_beneath(root_fd, path, flags))
        if len(starts) <= exchanges:
            (kit.work / ".vscode").rename(kit.work / "real")
            (kit.work / ".vscode").symlink_to("/etc")
        return starts[-1]

    monkeypatch.setattr(sandbox, "open_beneath", exchange_after_opening)
    monkeypatch.setattr(session, "_MAX_RESTARTS", 5)
    before = len(os.listdir("/proc/self/fd"))
    text = await kit.text(command="touch .vscode/x; cat", stdin="ran")
    kit.close()
    if is_run:
        assert len(starts) == exchanges + 1
        assert text.startswith("touch: cannot touch '.vscode/x': Read-only file system\nran")
    else:
        assert "could not be run in its sandbox" in text
        assert "end it first" in text
    assert len(os.listdir("/proc/self/fd")) <= before


@needs_bubblewrap
async def test_input_outlives_a_start_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(tmp_path, SandboxLevel.BUBBLEWRAP)
    spawn, starts = session.ShellSession._spawn, 0  # pyright: ignore[reportPrivateUsage]

    def send_and_spawn(self: session.ShellSession) -> "subprocess.Popen[bytes]":
        nonlocal starts
        starts += 1
        if starts > 1:
            return spawn(self)
        self.send_input(b"typed early\n")
        process = spawn(self)
        process.kill()
        process.wait()
        process.returncode = 1
        self.output.add(b"bwrap: Race condition binding dirfd: Invalid argument\n")
        return process

    monkeypatch.setattr(session.ShellSession, "_spawn", send_and_spawn)
    started = await kit.shell(command="read line; echo $line", background=True)
    data = await kit.data("shell_output", handle=started["handle"], wait=True)
    kit.close()
    assert starts == 2
    assert (started["output"] + data["output"]).endswith("typed early\n")


@needs_bubblewrap
async def test_what_is_no_exchange_is_not_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    refusal = "echo 'bwrap: Creating new namespace failed: No space left on device' >&2; exit 1"
    program.write_text(f'#!/bin/sh\n[ "$1" = --help ] || echo x >> {tmp_path}/starts\n{refusal}\n')
    program.chmod(0o755)
    confinement = Confinement(
        level=SandboxLevel.BUBBLEWRAP, roots=(), scratch=tmp_path, bubblewrap=str(program)
    )
    command = session.ShellSession(
        "1", "true", confinement=confinement, cwd=tmp_path, options=CommandOptions()
    )
    command.start()
    command.join()
    assert (tmp_path / "starts").read_text() == "x\n"
    assert str(command.failure) == (
        "the command could not be run in its sandbox: Creating new namespace failed: No space left on device"
    )


@pytest.mark.skipif(bool(unavailable_reason(SandboxLevel.LANDLOCK)), reason="Landlock does not work here")
def test_a_rule_of_landlock_is_not_for_what_a_link_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Path(tempfile.mkdtemp(prefix="toolglot-race-", dir=visible_directory()))
    monkeypatch.setenv("HOME", str(base / "home"))
    for name in ("home/.ssh", "work", "scratch"):
        (base / name).mkdir(parents=True)
    secret = base / "home/.ssh/id"
    secret.write_text("SECRET\n")
    secret.chmod(0o600)
    (base / "work/.git").symlink_to(base / "home/.ssh")  # was a directory when the rules were made
    roots = (Root(base / "work", writable=False), Root(base / "work/.git/id"))
    confinement = Confinement(level=SandboxLevel.LANDLOCK, roots=roots, scratch=base / "scratch")
    program = Program(
        argv=["/bin/sh", "-c", f"cat {secret}; chmod 777 {secret}; echo more >> {secret}"], cwd=base / "work"
    )
    try:
        with ExitStack() as stack:
            launch = prepare_launch(confinement, program, stack, stack)
            stack.callback(remove_cgroups, launch.cgroups)
            done = subprocess.run(
                launch.argv,
                env=safe_environment(),
                pass_fds=launch.pass_fds,
                capture_output=True,
                text=True,
                check=False,
            )
        assert "SECRET" not in done.stdout
        assert done.stderr.count("denied") + done.stderr.count("not permitted") == 3
        assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("SECRET\n", 0o600)
    finally:
        shutil.rmtree(base)
