"""The tool `run_code`: runs a script that calls the other tools, and waits for one that is still running."""

import time
import weakref
from functools import partial
from typing import Annotated, Any, Literal

from toolglot.builtin.code_mode.declarations import list_script_tools
from toolglot.builtin.code_mode.process import (
    Language,
    ScriptProcess,
    find_level,
    find_runtime,
    missing_runtime,
)
from toolglot.builtin.code_mode.script import Part, Script, StoredValues, append_text
from toolglot.confine.sandbox import SandboxLevel
from toolglot.errors import ToolError
from toolglot.schema.derive import Internal
from toolglot.tools.context import CallSuspended, Context
from toolglot.tools.policy import RUN_CODE
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.definitions import BUILTIN_TAG
from toolglot.values.failures import invalid_argument
from toolglot.values.messages import Text

__all__ = ["ScriptHost"]

DEFAULT_SECONDS, MAX_SECONDS = 10.0, 3600.0
DEFAULT_OUTPUT, MAX_OUTPUT = 40_000, 200_000
MAX_SCRIPTS = 8
"""Scripts of a conversation that run at the same time."""
_HEADERS = {
    "running": "Script running with cell ID {}",
    "completed": "Script completed",
    "failed": "Script failed",
    "stopped": "Script terminated",
}


class ScriptHost:
    """The scripts of one conversation.

    `language` is what scripts are written in, unless a call says otherwise.
    """

    def __init__(self, language: Language = "javascript") -> None:
        self.language: Language = language
        self._scripts: dict[str, Script] = {}
        self._suspended: dict[str, Script] = {}  # by the id of the call whose script waits for a decision
        self._stored = StoredValues()
        self._count = 0
        self.tool = Tool(
            self.run_code,
            name=RUN_CODE,
            tags=[BUILTIN_TAG],
            effects="read",  # what its calls do is decided about each of them
            action="execute",
            verb="Run",
            approval=False,
            always_ask=explain_risk,
            polls=True,
            ordered=True,
            # Calls of the script, and questions about them, take their own time.
            timeout=float("inf"),
            target=lambda arguments: str(arguments.get("script") or "a script"),
        )
        weakref.finalize(self, stop_scripts, self._scripts)

    async def run_code(  # noqa: D417
        self,
        context: Context,
        code: str = "",
        script: str = "",
        seconds: float = DEFAULT_SECONDS,
        stop: bool = False,
        language: Annotated[Literal["javascript", "python"] | None, Internal] = None,
        max_output: Annotated[int, Internal] = DEFAULT_OUTPUT,
    ) -> ToolOutput:
        """Run a program that calls the other tools, and return what it shows.

        Use it to do several steps at once, to work on results without reading them, and for loops and
        conditions. It has no file system and no network of its own.

        Args:
            code: The program.
            script: Instead of code: the cell ID of a script that is still running, to wait for it.
            seconds: Seconds to wait before a script that is still running returns what it has so far (default
                10).
            stop: End the script instead of waiting for it (default false).
        """
        if code.strip() and script:
            raise invalid_argument(
                "script", "must be left out with code: it is for a script that is still running"
            )
        if not code.strip() and not script:
            raise invalid_argument("code", "is required, unless script names one that is still running")
        if not 0 <= seconds <= MAX_SECONDS:
            raise invalid_argument("seconds", f"must be 0 to {MAX_SECONDS:g}")
        started_at = time.monotonic()
        if (current := self._suspended.pop(context.call.id, None)) is None:
            current = (
                self._scripts.get(script) if script else self._start(context, code, language or self.language)
            )
        if current is None:
            running = ", ".join(self._scripts) or "none"
            message = (
                f"cell {script} not found: its script has ended, or its process is gone; running: {running}"
            )
            raise ToolError(message, kind="not_found", code="script_not_found")
        if stop:
            current.stop()
        try:
            await current.attend(context, seconds)
        except CallSuspended as e:
            self._suspended[context.call.id] = current
            raise CallSuspended(*e.waiting, release=partial(self._release, context.call.id)) from None
        except BaseException as e:  # it was cancelled
            self._scripts.pop(current.id, None)
            content: list[Part] = _make_output(current, time.monotonic() - started_at, DEFAULT_OUTPUT).content
            e.add_note("".join(part.text for part in content if isinstance(part, Text)))
            raise
        if current.state != "running":
            self._scripts.pop(current.id, None)
        return _make_output(
            current,
            time.monotonic() - started_at - current.asked_seconds,
            max(1, min(max_output, MAX_OUTPUT)),
        )

    def _release(self, call_id: str) -> None:
        """End a script that waits for a decision."""
        script = self._suspended.pop(call_id)
        script.stop()
        self._scripts.pop(script.id, None)

    def _start(self, context: Context, code: str, language: Language) -> Script:
        if len(self._scripts) >= MAX_SCRIPTS:
            raise ToolError(
                f"{MAX_SCRIPTS} scripts are running: wait for one, or stop it",
                kind="limit",
                code="too_many_scripts",
            )
        if not find_runtime(language):
            raise ToolError(missing_runtime(language), code="missing_program")
        if find_level() is SandboxLevel.NONE and not context.approved:
            message = "nobody has approved to run it without a sandbox"
            raise ToolError(message, kind="not_allowed", code="user_unavailable")
        inner = context.inner_tools
        tools = list_script_tools(inner.definitions if inner is not None else (), language)
        self._count += 1
        script = self._scripts[str(self._count)] = Script(
            str(self._count),
            {tool.name: definition for tool, definition in tools},
            self._stored,
            lambda on_message, on_end: ScriptProcess(
                language,
                code,
                tools=[tool for tool, _ in tools],
                stored=dict(self._stored.texts),
                on_message=on_message,
                on_end=on_end,
            ),
        )
        return script


def explain_risk(arguments: dict[str, Any]) -> str:
    """Return why a script needs an approval of its own; "" if it does not."""
    return (
        ""
        if find_level() is not SandboxLevel.NONE
        else "no sandbox works here, so the script runs with all your rights"
    )


def stop_scripts(scripts: dict[str, Script]) -> None:
    """Stop all of them: their conversation is gone.

    The garbage collector calls this whenever it likes, so nobody is told: whoever is at work may be another
    conversation.
    """
    for script in scripts.values():
        script.stop()


def _make_output(script: Script, seconds: float, limit: int) -> ToolOutput:
    header = f"{_HEADERS[script.state].format(script.id)}\nWall time {seconds:.1f} seconds\nOutput:\n"
    parts = script.take_parts()
    if script.error:
        append_text(parts, f"Script error:\n{script.error}")
    # nothing is undone: the model has to know what was done
    if script.calls and script.state in ("failed", "stopped"):
        append_text(
            parts,
            "Calls that it made: " + ", ".join(f"{call.name} ({call.outcome})" for call in script.calls),
        )
    return ToolOutput([Text(header), *limit_parts(parts, limit)], is_error=script.state == "failed")


def limit_parts(parts: list[Part], limit: int) -> list[Part]:
    """Keep the beginning and the end of texts that are too long together; images stay."""
    total = sum(len(part.text) for part in parts if isinstance(part, Text))
    if total <= limit:
        return parts
    kept: list[Part] = []
    position, head, tail = 0, limit // 2, total - (limit - limit // 2)
    for part in parts:
        if not isinstance(part, Text):
            kept.append(part)
            continue
        start, position = position, position + len(part.text)
        text = part.text[: max(0, head - start)]
        if start <= head < position:
            text += f"…{-(-(tail - head) // 4)} tokens truncated…"
        text += part.text[max(0, tail - start, head - start) :] if position > tail else ""
        if text:
            kept.append(Text(text))
    return kept
