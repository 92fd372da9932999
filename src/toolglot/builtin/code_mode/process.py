"""The outside of the process that runs a script: how it is started, confined, spoken to and ended.

It sees nothing of the machine but its own interpreter and the system's libraries: bubblewrap where it works,
and Landlock and seccomp, which bind each of its threads, in every case but `SandboxLevel.NONE`, where each
script needs an approval. Messages are checked here; a process that sends anything else is ended. What is in
them is checked by `Script`.
"""

import os
import platform
import queue
import subprocess
import sys
import sysconfig
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from toolglot.builtin.code_mode.worker import OUT_OF_MEMORY
from toolglot.confine.child_process import SYSTEM_PATHS, library_variables
from toolglot.confine.limits import (
    CommandLimits,
    create_cgroups,
    enter_limits,
    remove_cgroups,
    was_out_of_memory,
)
from toolglot.confine.programs import (
    SYSTEM_DIRECTORIES,
    find_package,
    find_program,
    own_program_paths,
    own_python,
    start_program,
)
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.confine.seccomp import build_seccomp_filter

__all__ = [
    "LANGUAGES",
    "Language",
    "ScriptMessage",
    "ScriptProcess",
    "ScriptTool",
    "find_level",
    "find_runtime",
    "missing_runtime",
]

Language = Literal["javascript", "python"]
LANGUAGES: tuple[Language, ...] = ("javascript", "python")
CPU_SECONDS = 120
MEMORY_BYTES = 1 << 30
MAX_LINE = 16 << 20
"""Bytes of one message: an image, or a long text."""
MAX_SENT = 64 << 20
"""Bytes of all messages of a script."""
_PACKAGES = {"javascript": "py_mini_racer", "python": "pydantic_monty"}
_START = (
    "import sys; sys.path += sys.argv[1:]; from toolglot.builtin.code_mode.worker import worker; worker()"
)
_OUT_OF_TIME = f"the script used more than {CPU_SECONDS} s of processor time and was stopped"


class ScriptTool(msgspec.Struct, frozen=True):
    """A tool as a script sees it: its name as an identifier, where it is below `tools`, and its parameters in
    their order.
    """

    name: str
    path: list[str]
    description: str
    parameters: list[str]
    is_freeform: bool = False


class ScriptMessage(msgspec.Struct, frozen=True):
    """What a script says. `input` is JSON, if there is any."""

    type: Literal["text", "print", "image", "notify", "yield", "call", "store", "done"]
    id: int = 0
    name: str = ""
    input: str | None = None
    text: str = ""
    url: str = ""
    detail: str = ""
    error: str = ""


_DECODER = msgspec.json.Decoder(ScriptMessage)


@cache
def find_runtime(language: Language) -> str:
    """Return the directory that has a language's package; "" if it is not installed."""
    return find_package(_PACKAGES[language], ()) if language == "javascript" or _find_monty() else ""


@cache
def find_level() -> SandboxLevel:
    """Return how scripts are confined here."""
    if _find_bubblewrap() and not probe_level(SandboxLevel.BUBBLEWRAP, _find_bubblewrap()):
        return SandboxLevel.BUBBLEWRAP
    return SandboxLevel.NONE if probe_level(SandboxLevel.LANDLOCK, "") else SandboxLevel.LANDLOCK


# Only programs of the system and of our own environment are started: no tool can have written or exchanged
# those.


def _find_bubblewrap() -> str:
    return find_program("bwrap", directories=SYSTEM_DIRECTORIES)


def _find_monty() -> str:
    # Python may have been started as `../.venv/bin/python`: the sandbox has only real directories.
    directories = [os.path.dirname(sys.executable), sysconfig.get_path("scripts")]
    real_directories = [os.path.realpath(path) for path in directories if os.path.isabs(path)]
    return find_program("monty", directories=real_directories)


def missing_runtime(language: Language) -> str:
    """Return what to do about a language that cannot be run here."""
    return f"{language} cannot be run here: run `pip install 'toolglot[code]'`"


class ScriptProcess:
    """A running script.

    `on_message` and `on_end` are called by a thread of its own; `on_end` once, with why it failed.
    """

    def __init__(
        self,
        language: Language,
        code: str,
        *,
        tools: Sequence[ScriptTool],
        stored: dict[str, str],
        level: SandboxLevel | None = None,
        on_message: Callable[[ScriptMessage], None],
        on_end: Callable[[str], None],
    ) -> None:
        self.level = find_level() if level is None else level
        self._packages = [
            str(Path(__file__).parents[3]),
            str(Path(msgspec.__file__).parents[1]),
            find_runtime(language),
        ]
        program = _find_monty() if language == "python" else ""
        readable = [path for path in SYSTEM_PATHS if os.path.exists(path)]
        if program:
            readable.append(program)
        system_filter = ""
        if self.level is not SandboxLevel.NONE:
            system_filter = b64encode(_build_filter()).decode()
        self._paths = [*readable, *map(str, own_program_paths()), *self._packages]
        self._task: dict[str, Any] = {
            "language": language,
            "code": code,
            "tools": tools,
            "stored": stored,
            "cpu_seconds": CPU_SECONDS,
            "memory_bytes": MEMORY_BYTES,
            "filter": system_filter,
            "program": program,
            "readable": readable,
        }
        self._on_message, self._on_end = on_message, on_end
        self._input: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        # The garbage collector may end a forgotten script at any place, also in a thread that holds the lock.
        self._lock = threading.RLock()
        self._is_killed = False
        # The kernel ends bubblewrap together with the thread that started it, so this one lives as long as
        # the process.
        threading.Thread(target=self._run, name="toolglot-script", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send the result of a call; never blocks."""
        self._input.put(msgspec.json.encode(message) + b"\n")

    def kill(self) -> None:
        """End the script and everything that it has started."""
        with self._lock:
            self._is_killed = True
            if self._process is not None and self._process.poll() is None:
                with suppress(OSError):
                    if sys.platform == "win32":
                        self._process.kill()
                    else:  # it is the leader of its own group
                        os.killpg(self._process.pid, 9)

    # ---- its thread

    def _run(self) -> None:
        reason = "the script could not be started"
        cgroups: tuple[Path, ...] = ()
        try:
            if self.level is not SandboxLevel.NONE:
                cgroups = create_cgroups(CommandLimits(processes=64, memory=MEMORY_BYTES))
            process = self._spawn(cgroups)
            threading.Thread(
                target=self._write, args=(process,), name="toolglot-script-input", daemon=True
            ).start()
            self.send(self._task)
            reason = self._read(process)
            self.kill()
            code = process.wait()
            if reason and was_out_of_memory(cgroups):
                reason = OUT_OF_MEMORY
            elif reason and code in (-24, 128 + 24):  # SIGXCPU
                reason = _OUT_OF_TIME
        except Exception as e:  # whoever waits has to learn of the end
            reason = f"the script could not be started: {e}"
        finally:
            self._input.put(None)
            remove_cgroups(cgroups)
            self._on_end(reason)

    def _spawn(self, cgroups: tuple[Path, ...]) -> subprocess.Popen[bytes]:
        argv = [own_python(), "-I", "-S", "-X", "utf8", "-c", _START, *self._packages]
        pass_fds: list[int] = []
        try:
            if self.level is SandboxLevel.BUBBLEWRAP:
                filter_fd = os.memfd_create("filter", 0)
                pass_fds.append(filter_fd)
                os.write(filter_fd, _build_filter())
                os.lseek(filter_fd, 0, os.SEEK_SET)
                options = ["--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
                options += ["--proc", "/proc", "--chdir", "/"]
                for path in sorted({*self._paths}):
                    options += ["--ro-bind-try", path, path]
                argv = [_find_bubblewrap(), *options, "--seccomp", str(filter_fd), "--", *argv]
            if cgroups:
                argv = enter_limits(cgroups, argv)
            with self._lock:
                process = self._process = start_program(
                    argv,
                    roots=(),  # the system's programs and our own
                    env=library_variables(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
        finally:
            for fd in pass_fds:
                os.close(fd)
        if self._is_killed:
            self.kill()
        return process

    def _write(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with suppress(OSError), process.stdin:  # it has ended
            while (data := self._input.get()) is not None:
                process.stdin.write(data)
                process.stdin.flush()

    def _read(self, process: subprocess.Popen[bytes]) -> str:
        """Pass on what the script says until it ends; return why it failed."""
        assert process.stdout is not None
        size = 0
        with process.stdout as source:
            while line := source.readline(MAX_LINE):
                size += len(line)
                if size > MAX_SENT or not line.endswith(b"\n"):
                    return "the script wrote too much and was stopped"
                try:
                    message = _DECODER.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    return "the script's process sent something that is not a message and was stopped"
                if message.type == "done":
                    return message.error
                self._on_message(message)
        return "the script's process ended unexpectedly"


def _build_filter() -> bytes:
    return build_seccomp_filter(platform.machine(), (), private=False)
