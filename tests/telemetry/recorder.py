"""Telemetry that is kept in memory, and read back."""

import json
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolglot import Telemetry
from toolglot.telemetry.options import ContentMode


class Recorder:
    """Providers of the SDK, and what was exported."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self._logs = InMemoryLogRecordExporter()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meter_provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self.tracer = self.tracer_provider.get_tracer("the program's own")

    def telemetry(self, agent: str = "", content: ContentMode | None = None) -> Telemetry:
        return Telemetry(
            agent,
            content=content,
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
            logger_provider=self.logger_provider,
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """The only span of this name."""
        (span,) = (span for span in self.spans if span.name == name)
        return span

    def tree(self) -> list[str]:
        """Every span with those above it, sorted."""
        names = {span.context.span_id: span for span in self.spans if span.context is not None}

        def path(span: ReadableSpan) -> str:
            above = path(names[span.parent.span_id]) + " > " if span.parent is not None else ""
            return above + span.name

        return sorted(map(path, self.spans))

    def events(self, name: str) -> dict[str, dict[str, Any]]:
        """The events of a span by name, the last of each."""
        return {event.name: dict(event.attributes or {}) for event in self.span(name).events}

    def points(self) -> dict[str, list[Any]]:
        """The points of every histogram."""
        data = self._reader.get_metrics_data()
        by_metric: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    by_metric[metric.name] = [(metric.unit, point) for point in metric.data.data_points]
        return by_metric

    @property
    def details(self) -> list[Mapping[str, Any]]:
        """The attributes of the events with content."""
        records = [item.log_record for item in self._logs.get_finished_logs()]
        assert {record.event_name for record in records} <= {"gen_ai.client.inference.operation.details"}
        return [record.attributes or {} for record in records]


def parse(span: ReadableSpan, name: str) -> Any:
    """An attribute that is JSON."""
    return json.loads(str((span.attributes or {})[name]))
