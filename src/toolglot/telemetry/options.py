"""Whether and how an agent reports to OpenTelemetry.

Programs that do not import OpenTelemetry pay nothing.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from toolglot.common.loggers import get_logger
from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.errors import UsageError

if TYPE_CHECKING:
    from toolglot.telemetry.runs import RunTelemetry
    from toolglot.telemetry.spans import EngineFacts

__all__ = ["ContentMode", "Telemetry", "check_available", "start_run"]

log = get_logger("toolglot.telemetry")
_OLDEST = (1, 35)  # as in pyproject.toml; a program may have an older version installed
ContentMode = Literal["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"]
"""Where the content of messages and calls is recorded."""


class Telemetry(msgspec.Struct, metaclass=OptionMeta, frozen=True, eq=False):
    """How an agent reports to OpenTelemetry: `Agent(telemetry=Telemetry("support"))`."""

    agent: str = ""
    """The name of the agent in spans and metrics."""
    content: ContentMode | None = None
    """Whether and where messages, arguments and results are recorded. None: determined by the environment
    variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, by default not at all."""
    tracer_provider: Any = None
    """Creates spans instead of the global provider."""
    meter_provider: Any = None
    """Records metrics instead of the global provider."""
    logger_provider: Any = None
    """Emits events with content instead of the global provider."""

    def __post_init__(self) -> None:
        check_values(self)


def check_available(telemetry: Telemetry | bool | None) -> None:
    """Raise UsageError if telemetry is requested and no usable OpenTelemetry is installed."""
    if telemetry and (problem := _find_problem()):
        raise UsageError(problem)


def start_run(
    telemetry: Telemetry | bool | None,
    engine: "EngineFacts",
    find_id: Callable[[], str],
    previous: "RunTelemetry | None",
) -> "RunTelemetry | None":
    """Return the telemetry of a run, or None if it is off.

    `find_id` returns the conversation's id; `previous` is the telemetry of its last run.
    """
    if telemetry is False or (telemetry is None and not _has_providers()):
        return None
    # it was not requested explicitly, so the run continues without it
    if telemetry is None and _warn_of_problem():
        return None
    from toolglot.telemetry.runs import RunTelemetry

    options = telemetry if isinstance(telemetry, Telemetry) else Telemetry()
    return RunTelemetry(options, engine, find_id(), previous)


def _has_providers() -> bool:
    """Return whether the program has set up OpenTelemetry."""
    modules = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    getters = (
        getattr(modules[0], "get_tracer_provider", None),
        getattr(modules[1], "get_meter_provider", None),
    )
    # Until then, the API returns proxies, whose classes are private.
    names = [
        type(get_provider()).__name__.lstrip("_") for get_provider in getters if get_provider is not None
    ]
    return any(not name.startswith(("Proxy", "NoOp")) for name in names)


@cache
def _find_problem() -> str:
    """Return why OpenTelemetry cannot be used; empty if it can."""
    try:
        from opentelemetry.version import __version__ as version
    except ImportError:
        return "telemetry needs OpenTelemetry: pip install 'toolglot[otel]'"
    if tuple(map(int, version.split(".")[:2])) >= _OLDEST:
        return ""
    oldest = ".".join(map(str, _OLDEST))
    return (
        f"telemetry needs OpenTelemetry {oldest} or newer, not {version}: pip install --upgrade "
        "'toolglot[otel]'"
    )


@cache
def _warn_of_problem() -> bool:
    """Return whether OpenTelemetry cannot be used, and warn once."""
    if problem := _find_problem():
        log.warning("runs are not reported to OpenTelemetry: %s", problem)
    return bool(problem)
