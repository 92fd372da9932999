"""Whether and how an agent reports to OpenTelemetry. A program that has not imported that pays nothing."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolglot.errors import UsageError
from toolglot.value_checks import check_values

if TYPE_CHECKING:
    from toolglot.telemetry.runs import RunTelemetry
    from toolglot.telemetry.spans import EngineFacts

__all__ = ["ContentMode", "Telemetry", "check_available", "start_run"]

ContentMode = Literal["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"]
"""Where the content of messages and calls is recorded."""


class Telemetry(msgspec.Struct, frozen=True, eq=False):
    """How an agent reports to OpenTelemetry: `Orchestrator(telemetry=Telemetry("support"))`."""

    agent: str = ""
    """The name of the agent in spans and metrics."""
    content: ContentMode | None = None
    """Whether messages, arguments and results are recorded, and where. None: as the environment variable
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says, by default not at all."""
    tracer_provider: Any = None
    """Creates the spans, instead of the global provider."""
    meter_provider: Any = None
    """Likewise, for metrics."""
    logger_provider: Any = None
    """Likewise, for events with content."""

    def __post_init__(self) -> None:
        check_values(self)


def check_available(telemetry: Telemetry | bool | None) -> None:
    """Raise UsageError if telemetry is wanted and OpenTelemetry is not installed."""
    if telemetry:
        try:
            import opentelemetry.trace as _  # noqa: F401
        except ImportError:
            raise UsageError("telemetry needs OpenTelemetry: pip install 'toolglot[otel]'") from None


def start_run(
    telemetry: Telemetry | bool | None, engine: "EngineFacts", find_id: Callable[[], str], previous: "RunTelemetry | None"
) -> "RunTelemetry | None":
    """Return the telemetry of a run, if there is any.

    `find_id` returns the id of the conversation, and `previous` is the telemetry of its last run.
    """
    if telemetry is False or (telemetry is None and sys.modules.get("opentelemetry.trace") is None):
        return None
    from toolglot.telemetry.runs import RunTelemetry, has_providers

    if telemetry is None and not has_providers():
        return None
    return RunTelemetry(telemetry if isinstance(telemetry, Telemetry) else Telemetry(), engine, find_id(), previous)
