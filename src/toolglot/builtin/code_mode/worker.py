"""The inside of the process that runs a script. It gives up every right it has before its interpreter starts.

Messages are lines of JSON: the task comes first, then the results of calls; output, calls and the end go
back. JavaScript runs in V8 without a compiler (`--jitless`), Python in Monty, an interpreter of a subset of
Python. Neither can reach a function of this process that does more than send a message, and whoever reads the
messages checks each of them.
"""

import json
import os
import select
import sys
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["OUT_OF_MEMORY", "SLICE_SECONDS", "worker"]

SLICE_SECONDS = 30
"""How long a script may compute without waiting for anything."""
_TOO_LONG = f"the script computed for {SLICE_SECONDS} s without waiting for anything and was stopped"
OUT_OF_MEMORY = "the script used too much memory and was stopped"
_NOTHING_TO_WAIT_FOR = "the script waits for something that can never happen: no call and no timer is pending"
_HEAP_BYTES = 256 << 20
_MAX_CALLS = 10_000
_MAX_WAIT = 3600.0
"""Seconds after which timers are looked at again: select cannot wait for any length of time."""


class _Ended(Exception):
    """Nobody listens any more."""


def worker() -> None:
    """Run one script, which the first line of stdin describes."""
    channel = Channel()
    try:
        task = json.loads(channel.receive() or "{}")
        limit_resources(task)
        (run_javascript if task["language"] == "javascript" else run_python)(task, channel)
    except _Ended:
        pass
    except BaseException as e:  # whoever waits has to learn why
        with suppress(_Ended):
            channel.finish(f"the runtime failed: {type(e).__name__}: {e}")
    os._exit(0)  # V8 has threads that never end


class Channel:
    """The pipes to the process that started this one."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        # bytes of it that have no line end: looking at them again would cost a result of 64 MB seconds
        self._searched = 0

    def send(self, **message: Any) -> None:
        self.write(f"{json.dumps(message)}\n")

    def write(self, lines: str) -> None:
        data = memoryview(lines.encode("utf-8", "replace"))
        try:
            while data:
                data = data[os.write(1, data) :]
        except OSError:
            raise _Ended from None

    def finish(self, error: str = "") -> None:
        self.send(type="done", error=error)

    def receive(self, seconds: float | None = None) -> str | None:
        """Return the next line; None if there is none within these seconds."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if seconds is not None and not select.select([0], [], [], max(0.0, min(seconds, _MAX_WAIT)))[0]:
                return None
            if not (data := os.read(0, 1 << 18)):
                raise _Ended
            self._buffer += data
        line = self._buffer[:end].decode()
        del self._buffer[: end + 1]
        self._searched = 0
        return line


def limit_resources(task: dict[str, Any]) -> None:
    if sys.platform == "win32":
        return
    import resource

    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CPU: task["cpu_seconds"],
        # What can be written, not what is reserved: V8 reserves far more than it uses.
        resource.RLIMIT_DATA: task["memory_bytes"],
    }
    for name, limit in limits.items():
        with suppress(OSError, ValueError):  # a system without this limit
            # The hard limit of time is higher: reaching the other one ends the process with a signal of its
            # own.
            resource.setrlimit(name, (limit, limit + (5 if name == resource.RLIMIT_CPU else 0)))


def give_up_rights(task: dict[str, Any], readable: list[str]) -> None:
    """From here on, no file can be opened but these, no socket, and no other process can be reached.

    This binds the calling thread and those that it starts, so there must be no other one.
    """
    if not task["filter"]:
        return
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("a thread would keep its rights")
    import ctypes

    from toolglot.confine.supervisor import EXECUTE, LIST, READ, apply_landlock, drop_capabilities

    drop_capabilities(os.uname().machine)
    apply_landlock([(path, EXECUTE | READ | LIST) for path in readable], network=False)
    program = b64decode(task["filter"])
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("size", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    steps = Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    set_seccomp, mode_filter = 22, 2  # linux/prctl.h; apply_landlock has set "no new privileges"
    if ctypes.CDLL(None, use_errno=True).prctl(set_seccomp, mode_filter, ctypes.byref(steps), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


# ---- JavaScript


def run_javascript(task: dict[str, Any], channel: Channel) -> None:
    import py_mini_racer as v8

    source = Path(__file__).with_name("runtime.js").read_text(encoding="utf-8")
    v8.init_mini_racer(flags=(*v8.DEFAULT_V8_FLAGS, "--jitless"))  # reads its files, and starts no thread yet
    give_up_rights(task, [])
    engine = v8.MiniRacer()
    engine.set_hard_memory_limit(_HEAP_BYTES)
    # By name, and not as an object: mini-racer calls those through Array.prototype, which is the script's.
    bridge = f"bridge_{os.urandom(8).hex()}"
    engine.eval(f"Object.defineProperty(globalThis, '{bridge}', {{ value: {source} }}), 0")

    def forward_messages(seconds: float) -> str | None:
        """Send what the script has said; return what it waits for, or None at its end."""
        state, _, lines = str(engine.eval(f'{bridge}("")', timeout_sec=seconds)).partition("\n")
        channel.write(lines)
        return None if '{"type":"done"' in lines else state  # quotes are escaped inside of texts

    message: str | None = json.dumps({**task, "type": "start"})
    try:
        while True:
            if message is None:
                message = '{"type":"timers"}'
            text = json.dumps(message)
            engine.eval(f"{bridge}({text})", timeout_sec=SLICE_SECONDS)
            if (state := forward_messages(SLICE_SECONDS)) is None:
                return
            delay, waiting = map(float, state.split())
            if engine.was_hard_memory_limit_reached():  # after an await: that raises nothing
                error = OUT_OF_MEMORY
                break
            if delay < 0 and not waiting:
                error = _NOTHING_TO_WAIT_FOR
                break
            seconds = None if delay < 0 else delay / 1000
            message = channel.receive(seconds)
    except v8.JSTimeoutException:
        error = _TOO_LONG
    except v8.JSEvalException as e:
        error = OUT_OF_MEMORY if engine.was_hard_memory_limit_reached() else f"the runtime failed: {e}"
    with suppress(v8.JSEvalException):  # what follows an await cannot be stopped: what it has shown is lost
        forward_messages(1)
    channel.finish(error)


# ---- Python


def run_python(task: dict[str, Any], channel: Channel) -> None:
    import pydantic_monty as monty

    import_module("decimal")  # monty wants it later, when it cannot be read any more
    give_up_rights(task, task["readable"])  # it has to start its own process
    numbers = iter(range(1, sys.maxsize))

    def make_function(tool: dict[str, Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = json.dumps(bind_arguments(tool, args, kwargs), allow_nan=False)
            channel.send(type="call", id=next(numbers), name=tool["name"], input=arguments)
            answer = json.loads(channel.receive() or "{}")
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return json.loads(answer["value"]) if "value" in answer else None

        return call

    stored: dict[str, Any] = {key: json.loads(text) for key, text in task["stored"].items()}

    def store(key: str, value: Any) -> None:
        stored[key] = value
        channel.send(type="store", name=key, input=json.dumps(value))

    functions: dict[str, Any] = {tool["name"]: make_function(tool) for tool in task["tools"]}
    catalog = [{"name": tool["name"], "description": tool["description"]} for tool in task["tools"]]
    functions |= {"store": store, "load": stored.get, "ALL_TOOLS": catalog}
    limits: Any = {
        "max_memory": _HEAP_BYTES,
        "max_turn_duration_secs": float(SLICE_SECONDS),
        "max_suspensions": _MAX_CALLS,
    }
    with (
        monty.Monty(binary_path=task["program"], max_processes=1) as pool,
        pool.checkout(limits=limits) as session,
    ):
        try:
            value: Any = session.feed_run(
                task["code"],
                external_lookup=functions,
                print_callback=lambda stream, text: channel.send(type="print", text=text),
            )
        except monty.MontyCrashedError as e:
            error = _TOO_LONG if getattr(e, "timed_out", False) else OUT_OF_MEMORY
            channel.finish(error)
        except monty.MontyError as e:
            display = getattr(e, "display", None)
            error = display() if display is not None else str(e)
            if "turn time limit exceeded" in error:
                error = _TOO_LONG
            channel.finish(error)
        else:
            if value is not None:
                try:
                    text = value if isinstance(value, str) else json.dumps(value, default=repr)
                except (TypeError, ValueError, RecursionError):  # keys that JSON has not
                    text = repr(value)
                channel.send(type="text", text=text)
            channel.finish()


def bind_arguments(tool: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the arguments of a call by name, or the text of a tool that takes just that.

    Raises TypeError.
    """
    names = tool["parameters"]
    if len(args) > len(names):
        raise TypeError(
            f"{tool['name']}() takes {len(names)} positional arguments but {len(args)} were given"
        )
    arguments = dict(zip(names, args, strict=False))
    if doubled := arguments.keys() & kwargs.keys():
        raise TypeError(f"{tool['name']}() got multiple values for argument {min(doubled)!r}")
    arguments |= kwargs
    if not tool["is_freeform"]:
        return arguments
    if arguments.keys() != {"input"}:
        raise TypeError(f"{tool['name']}() takes one argument: input")
    return arguments["input"]
