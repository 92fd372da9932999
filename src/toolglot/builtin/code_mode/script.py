"""One script of a conversation: its process, what it has said, and the calls that it makes.

A script runs while a call waits for it (`attend`). When such a call returns early, because the time is up or
the script said so, calls that are running continue, and new ones wait for the next time that somebody attends
to it. Where a call of the script needs a decision that nobody can give at once, the script stops there
(`CallSuspended`) until there is one.
"""

import asyncio
import re
import threading
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, cast

import msgspec
from msgspec.structs import replace

from toolglot.builtin.code_mode.process import ScriptMessage, ScriptProcess
from toolglot.common.jsontext import dumps_text
from toolglot.common.media_types import detect_media
from toolglot.common.textutil import format_size
from toolglot.tools.context import CallSuspended, Context, InnerTools
from toolglot.values.approvals import Ruling, Suspended
from toolglot.values.definitions import ToolDefinition
from toolglot.values.messages import Media, Text, ToolCall, ToolResult

__all__ = ["InnerCall", "Script", "ScriptState"]

ScriptState = Literal["running", "completed", "failed", "stopped"]
MAX_CALLS = 10_000
"""Calls of one script."""
MAX_STORED = 1 << 20
"""Characters that scripts of a conversation can keep for later ones."""
MAX_RECEIVED = 64 << 20
"""Bytes of all results that one script gets, as JSON. Scripts compute on whole results: beyond this, a call
raises."""
Part = Text | Media


class InnerCall(msgspec.Struct):
    """A call that a script has made."""

    name: str
    outcome: str = "running"


class StoredValues:
    """What the scripts of a conversation keep for later ones: JSON texts."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._size = 0

    def put(self, key: str, text: str) -> bool:
        """Keep a value; returns False if there is no space for it."""
        old_size = len(key) + len(self.texts[key]) if key in self.texts else 0
        if (size := self._size - old_size + len(key) + len(text)) > MAX_STORED:
            return False
        self.texts[key], self._size = text, size
        return True


class Script:
    """A script. `start_process` takes what to call with messages and at the end."""

    def __init__(
        self,
        id: str,
        tools: Mapping[str, ToolDefinition],
        stored: StoredValues,
        start_process: Callable[[Callable[[ScriptMessage], None], Callable[[str], None]], ScriptProcess],
    ) -> None:
        self.id, self._tools, self._stored = id, tools, stored
        self.state: ScriptState = "running"
        self.error = ""
        self.calls: list[InnerCall] = []
        self._parts: list[Part] = []
        self._inbox: deque[ScriptMessage | str] = deque()
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None  # whoever waits for the script
        self._received_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._question_count = 0
        # of a question; for questions, since it was last attended to
        self._asked_at = self.asked_seconds = 0.0
        self._images: dict[str, Media] = {}  # that results have given it
        self._waiting: list[tuple[ScriptMessage, Suspended]] = []
        self._process = start_process(self._receive, self._receive)

    def stop(self) -> None:
        """End the script now. Calls that are running are cancelled."""
        if self.state == "running":
            self.state = "stopped"
        self._process.kill()
        for task in self._tasks:
            if not (loop := task.get_loop()).is_closed():
                loop.call_soon_threadsafe(task.cancel)

    def take_parts(self) -> list[Part]:
        """Return the output since this was last called."""
        parts, self._parts = self._parts, []
        return parts

    # ---- the thread of the process

    def _receive(self, message: ScriptMessage | str) -> None:
        """Take a message; or, as a string, the end: why it failed."""
        with self._lock:
            self._inbox.append(message)
            self._wake()

    # ---- a call that waits for the script

    async def attend(self, context: Context, seconds: float | None) -> None:
        """Run the script's calls until it ends, says that it wants to yield, or the seconds have passed.

        The time that somebody takes to decide on a call does not count. Raises CallSuspended.
        """
        inner = context.inner_tools
        assert inner is not None, "the executor provides them"
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        waiting, self._waiting = self._waiting, []
        for message, suspended in waiting:
            self._start_call(message, inner, inner.rulings.get(suspended.path))

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._wake = wake
        started_at = self._asked_at = loop.time()
        self.asked_seconds = 0.0
        try:
            while not self._read_inbox(context, inner):
                if self._waiting and not self._tasks:
                    raise CallSuspended(*[suspended for _, suspended in self._waiting])
                pause = None
                if seconds is not None and not self._question_count:
                    pause = started_at + seconds + self.asked_seconds - loop.time()
                if pause is not None and pause <= 0 and not self._waiting:
                    return
                changed.clear()
                if self._inbox:
                    continue
                # not wait_for, which loses a cancellation that comes when it is woken
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await changed.wait()
        except asyncio.CancelledError:
            self.stop()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        finally:
            with self._lock:
                self._wake = lambda: None

    def _read_inbox(self, context: Context, inner: InnerTools) -> bool:
        """Handle what the script has said; return whether the wait is over."""
        while self._inbox:
            message = self._inbox.popleft()
            if isinstance(message, str):
                if self.state == "running":
                    self.state, self.error = ("failed", message) if message else ("completed", "")
                for task in self._tasks:
                    task.cancel()
            elif message.type == "call":
                self._start_call(message, inner, None)
            elif message.type == "store":
                if not self._stored.put(message.name, message.input or "null"):
                    note = (
                        f"[store({dumps_text(message.name)}): not kept for later scripts, as the values "
                        "are too long]"
                    )
                    append_text(self._parts, note)
            elif message.type == "yield":
                return True
            elif message.type == "image":
                self._parts.append(make_image(message, self._images))
            elif message.type == "print":
                self._parts.append(Text(message.text))
            else:
                append_text(self._parts, message.text)
                if message.type == "notify":
                    context.report(message.text)
        return self.state != "running"

    # ---- its calls

    def _start_call(self, message: ScriptMessage, inner: InnerTools, ruling: Ruling | None) -> None:
        if len(self.calls) >= MAX_CALLS and self.state == "running":
            self.stop()
            self.state, self.error = "failed", f"the script made more than {MAX_CALLS} calls and was stopped"
        if self.state != "running":
            return
        record = InnerCall(message.name)
        self.calls.append(record)
        task = asyncio.get_running_loop().create_task(self._run_call(message, inner, ruling, record))
        self._tasks.add(task)

        def finish(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            with self._lock:
                self._wake()
            if task.cancelled():  # perhaps its event loop has ended, and the script goes on
                self._process.send({"type": "answer", "id": message.id, "error": "The call was interrupted."})
            elif (error := task.exception()) is not None:  # a hook, or a bug: not the tool
                self._process.send(
                    {"type": "answer", "id": message.id, "error": f"{type(error).__name__}: {error}"}
                )

        task.add_done_callback(finish)

    async def _run_call(
        self, message: ScriptMessage, inner: InnerTools, ruling: Ruling | None, record: InnerCall
    ) -> None:
        definition = self._tools.get(message.name)
        try:
            if definition is None:
                raise ValueError(f"there is no tool {message.name!r}")
            call = make_call(definition, f"script-{self.id}-{message.id}", message.input)
        except ValueError as e:
            record.outcome = "not run"
            self._process.send({"type": "answer", "id": message.id, "error": str(e)})
            return
        record.outcome = "interrupted"
        outcome = await inner.call(call, ruling, self._count_question)
        if isinstance(outcome, Suspended):
            self.calls.remove(record)
            self._waiting.append((message, outcome))
            return
        result = outcome.result
        self._images.update({image_url(block): block for block in result.content if isinstance(block, Media)})
        if not outcome.ran:
            record.outcome = "not run"
        else:
            record.outcome = "failed" if result.is_error else "ok"
        self._process.send({"type": "answer", "id": message.id, **self._make_answer(message.name, result)})

    def _make_answer(self, name: str, result: ToolResult) -> dict[str, str]:
        """Return the value or the error of a call: all of it, never a part that the script would take for the
        whole.
        """
        answer = {"error": result.text} if result.is_error else {"value": dumps_text(to_value(result))}
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in answer.values())
        if self._received_bytes + size > MAX_RECEIVED:
            limits = f"the results of a script may have {format_size(MAX_RECEIVED)} together"
            left = f"{format_size(MAX_RECEIVED - self._received_bytes)} are left"
            return {
                "error": f"{name} ran, but its result has {format_size(size)}; {limits}, of which {left}: "
                "ask for less"
            }
        self._received_bytes += size
        return answer

    def _count_question(self, is_asking: bool) -> None:
        """Stop the clock while somebody is asked about a call."""
        now = asyncio.get_running_loop().time()
        if not self._question_count:
            self._asked_at = now
        self._question_count += 1 if is_asking else -1
        if not self._question_count:
            self.asked_seconds += now - self._asked_at
            with self._lock:
                self._wake()


def append_text(parts: list[Part], text: str) -> None:
    """Append a text on a line of its own: on most wires, all parts of a result are one string."""
    if parts and isinstance(last := parts[-1], Text) and not last.text.endswith("\n"):
        parts[-1] = Text(f"{last.text}\n")
    parts.append(Text(text))


def make_call(definition: ToolDefinition, id: str, text: str | None) -> ToolCall:
    """Return the call that a script makes, as the model would have made it. Raises ValueError."""
    value: Any = None if text is None else msgspec.json.decode(text)
    if definition.kind == "freeform":
        if not isinstance(value, str):
            raise ValueError(f"{definition.name} expects one string")
        return ToolCall(id, definition.name, None, value, namespace=definition.namespace, freeform=True)
    if not isinstance(value, dict | None):
        raise ValueError(f"{definition.name} expects one object with its arguments")
    return ToolCall(id, definition.name, cast(dict[str, Any], value or {}), namespace=definition.namespace)


def to_value(result: ToolResult) -> Any:
    """Return what a script gets: data if there is some, otherwise the text; one image alone, or all of the
    content.
    """
    if result.data is not None:
        return result.data
    blocks = [block for block in result.content if isinstance(block, Text | Media)]
    if not any(isinstance(block, Media) for block in blocks):
        return result.text
    values: list[dict[str, str]] = []
    for block in blocks:
        if isinstance(block, Text):
            values.append({"type": "text", "text": block.text})
        else:
            values.append({"type": "input_image", "image_url": image_url(block)})
    if len(values) == 1:
        return {"image_url": values[0]["image_url"]}
    return {"content": values}


def image_url(media: Media) -> str:
    return media.url or f"data:{media.media_type};base64,{media.data}"


def make_image(message: ScriptMessage, images: Mapping[str, Media]) -> Part:
    """Return an image that a script shows. `images`: those that results have given it, by URL.

    Any other address would be a way out: the provider fetches it, with whatever the script has written into
    it.
    """
    media = images.get(message.url)
    if media is None and re.match(r"data:[^,]*;base64,", message.url, re.IGNORECASE):
        with suppress(ValueError):  # it is not base64
            data = b64decode(message.url.partition(",")[2], validate=True)
            if (detect_media(data[:16]) or ("", ""))[0] == "image":
                media = Media.from_bytes(data)
    if media is None:
        return Text(
            "[An image was left out: image() takes a PNG, JPEG, GIF or WebP as a data URL, or an image of a "
            "result.]"
        )
    return (
        replace(media, detail=message.detail)
        if message.detail in ("auto", "low", "high", "original")
        else media
    )
