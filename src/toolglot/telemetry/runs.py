"""Reports an agent's runs to OpenTelemetry.

All state is per run, so parallel runs, in tasks or in threads, do not mix. A span's context is set only while
the run itself works, never while its consumer does, so the consumer's own spans are not nested in the run.
Spans from the user's tools, hooks and HTTP clients are.
"""

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar, cast, get_args

from opentelemetry import _logs, metrics, trace
from opentelemetry.context import Context, attach, detach

from toolglot.common.loggers import get_logger
from toolglot.telemetry.content import Captured, ContentCache
from toolglot.telemetry.options import ContentMode, Telemetry
from toolglot.telemetry.spans import AgentSpan, Answer, ChatSpan, EngineFacts, Signals, ToolSpan
from toolglot.values.approvals import ApprovalRequest, Suspended
from toolglot.values.events import (
    ContextTruncated,
    EngineEvent,
    ModelSwitched,
    RunEvent,
    RunResult,
    ToolOutcome,
)
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Message, ToolCall
from toolglot.values.request import Request, ToolDefinition

__all__ = ["RunTelemetry"]

log = get_logger("toolglot.telemetry")
T = TypeVar("T")
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_EVENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"


_open_signals = lru_cache(8)(Signals)


def _read_content_mode() -> ContentMode:
    mode = os.environ.get(_CONTENT_VARIABLE, "").strip().upper() or "NO_CONTENT"
    if mode in get_args(ContentMode):
        return cast(ContentMode, mode)
    known = ", ".join(get_args(ContentMode))
    log.warning(
        "%s=%s is not a known value, so no content is recorded; known: %s",
        _CONTENT_VARIABLE,
        mode[:80],
        known,
    )
    return "NO_CONTENT"


class RunTelemetry:
    """One run: its span, with those of its requests and calls nested in it."""

    def __init__(
        self,
        telemetry: Telemetry,
        engine: EngineFacts,
        conversation_id: str,
        previous: "RunTelemetry | None" = None,
    ) -> None:
        self._agent, self._engine, self._conversation_id = telemetry.agent, engine, conversation_id
        self._signals = _open_signals(  # the program may set the global providers at any time
            telemetry.tracer_provider or trace.get_tracer_provider(),
            telemetry.meter_provider or metrics.get_meter_provider(),
            telemetry.logger_provider or _logs.get_logger_provider(),
        )
        content = telemetry.content or _read_content_mode()
        self._captures_spans = content in ("SPAN_ONLY", "SPAN_AND_EVENT")
        self._captures_events = content in ("EVENT_ONLY", "SPAN_AND_EVENT")
        emits_events = os.environ.get(_EVENT_VARIABLE, "").strip().lower()
        self._emits_events = emits_events == "true" or (self._captures_events and emits_events != "false")
        # Content converted for the previous run need not be converted again.
        cache = (previous.content if previous is not None else None) or ContentCache()
        self.content: ContentCache | None = cache if content != "NO_CONTENT" else None
        self._secrets = cache.secrets
        self._reported: set[Loss | Repair] = set()
        self._run: AgentSpan | None = None

    async def watch_run(
        self,
        batches: AsyncGenerator[list[RunEvent]],
        prompt: Sequence[Message],
        get_result: Callable[[], RunResult],
    ) -> AsyncGenerator[list[RunEvent]]:
        """Yield a run's events inside a span."""
        run = self._run = AgentSpan(self._signals, self._agent, self._engine, self._conversation_id)
        try:
            async with aclosing(batches):
                while (batch := await _next_in(run.context, batches)) is not None:
                    for event in batch:
                        if isinstance(event, ModelSwitched):
                            run.add_event("model_switched", {"model": event.model, "reason": event.reason})
                        elif isinstance(event, ContextTruncated):
                            counts = {
                                "omitted_messages": event.omitted_messages,
                                "before": event.before,
                                "after": event.after,
                            }
                            run.add_event("context_truncated", {"message": event.message, **counts})
                    yield batch
            result = get_result()
            run.describe_result(result)
            self._report_changes(run, (*result.losses, *result.repairs))
            if self.content is not None and self._captures_spans and result.reply is not None:
                run.set({"gen_ai.output.messages": self.content.capture_reply(result.reply).text})
        except BaseException as error:
            run.fail_with(error, self._secrets)
            raise
        finally:
            # at the end, when the keys to hide are known
            if self.content is not None and self._captures_spans:
                run.set({"gen_ai.input.messages": self.content.capture_messages(prompt).text})
            run.end()

    async def watch_chat(
        self,
        batches: AsyncGenerator[list[EngineEvent]],
        engine: EngineFacts,
        request: Request,
        get_answer: Callable[[], Answer | None],
    ) -> AsyncGenerator[list[EngineEvent]]:
        """Yield an engine's events for one reply inside a span."""
        parent = self._run.context if self._run is not None else None
        chat = ChatSpan(self._signals, engine, request, self._conversation_id, parent)
        content: dict[str, Captured] = {}
        answer: Answer | None = None
        try:
            async with aclosing(batches):
                while (batch := await _next_in(chat.context, batches)) is not None:
                    chat.observe(batch)
                    yield batch
            if (answer := get_answer()) is not None:
                chat.describe_reply(answer.reply)
                self._report_changes(chat, (*answer.losses, *answer.repairs))
        except BaseException as error:
            self._secrets.update(engine.secrets)  # known by now, including those from signing in
            chat.fail_with(error, self._secrets)
            raise
        finally:
            self._secrets.update(engine.secrets)
            if self.content is not None:
                content = self.content.capture_request(request.messages, request.tools)
                if answer is not None:
                    content["gen_ai.output.messages"] = self.content.capture_reply(answer.reply)
            if self._captures_spans:
                chat.set({name: captured.text for name, captured in content.items()})
            if self._emits_events:
                captured_content = content if self._captures_events else {}
                self._emit_details(chat, captured_content)
            chat.end()

    def _report_changes(self, span: AgentSpan | ChatSpan, changes: Sequence[Loss | Repair]) -> None:
        """Add losses and repairs. Those about the tools recur with every request, and are added once."""
        for change in changes:
            if change not in self._reported:
                self._reported.add(change)
                fields = {"subject": change.subject, "where": change.where, "reason": change.reason}
                kind = "loss" if isinstance(change, Loss) else "repair"
                span.add_event(kind, fields)

    def _emit_details(self, chat: ChatSpan, content: dict[str, Captured]) -> None:
        values: dict[str, Any] = {name: captured.values for name, captured in content.items()}
        error = {name: value for name, value in chat.measures.items() if name == "error.type"}
        name, attributes = "gen_ai.client.inference.operation.details", {**chat.details, **error, **values}
        self._signals.logger.emit(
            _logs.LogRecord(event_name=name, attributes=attributes, context=chat.context)
        )

    # ---- calls

    def start_tool(
        self, tool: ToolDefinition, call: ToolCall, shown_name: str, *, is_approved: bool
    ) -> Callable[[ToolOutcome | Suspended | None], None]:
        """Start a call's span in the call's own task; everything that the task does is nested in it.

        Returns the function that ends the span; its argument is None if the call was interrupted.
        """
        # Another call's task may have started this one. A call made by code is nested in the call that runs
        # the code.
        parent = None if call.caller or self._run is None else self._run.context
        span = ToolSpan(self._signals, self._agent, tool, call, shown_name, parent)
        attach(span.context)
        if is_approved:
            self.note_decision(call, "allow")
        if self.content is not None and self._captures_spans:
            arguments = call.text if call.arguments is None else call.arguments
            span.set({"gen_ai.tool.call.arguments": self.content.to_json(arguments)})
        return partial(self._end_tool, span)

    def _end_tool(self, span: ToolSpan, outcome: ToolOutcome | Suspended | None) -> None:
        if isinstance(outcome, ToolOutcome) and self.content is not None and self._captures_spans:
            result = outcome.result
            is_text = all(hasattr(block, "text") for block in result.content)
            text = self.content.redact(result.text) if is_text else self.content.to_json(result.content)
            span.set({"gen_ai.tool.call.result": text})
        span.describe_outcome(outcome, with_content=self.content is not None)
        span.end()

    def note_approval_request(self, request: ApprovalRequest) -> None:
        """Record that approval of a call is requested."""
        self._add_event("approval_asked", request.call, request.reason)

    def note_decision(self, call: ToolCall, decision: Literal["allow", "deny"]) -> None:
        """Record the decision about a call."""
        self._add_event("approval_decided", call, decision=decision)

    def note_refusal(self, outcome: ToolOutcome, *, is_denied: bool, reason: str) -> None:
        """Record that a call was refused."""
        if is_denied:  # the reason is the user's message to the model
            self.note_decision(outcome.call, "deny")
            return
        error_type = outcome.result.error_code or outcome.result.error_kind or ""
        self._add_event("tool_refused", outcome.call, reason, **{"error.type": error_type})

    def _add_event(self, name: str, call: ToolCall, reason: str = "", **attributes: str) -> None:
        if self._run is not None:
            if reason and self.content is not None:  # it may quote the call's arguments
                attributes["reason"] = reason
            self._run.add_event(
                name, {"gen_ai.tool.name": call.qualified_name, "gen_ai.tool.call.id": call.id, **attributes}
            )


async def _next_in(context: Context, batches: AsyncGenerator[T]) -> T | None:
    """Return the next batch, produced in the given context."""
    token = attach(context)
    try:
        return await anext(batches, None)
    finally:
        detach(token)
