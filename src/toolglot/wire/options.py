"""Generation options for a target: what it accepts, under neutral names. Everything else is a Loss."""

from typing import Any, get_args

from toolglot.values.request import Effort, Options, Request
from toolglot.wire.json_values import as_dict
from toolglot.wire.spec import SAMPLING, SPECS
from toolglot.wire.writer import Writer

_EFFORT_LEVELS: tuple[str, ...] = get_args(Effort)


def encode_sampling(options: Options, writer: Writer) -> dict[str, Any]:
    """Select the sampling options that the target accepts, under the wire's names."""
    profile = writer.profile
    model = writer.model or profile.title
    accepted: dict[str, Any] = {}
    for name in SAMPLING:
        value = getattr(options, name)
        if value is None or value == ():
            continue
        reason = ""
        if name not in profile.options:
            reason = f"{profile.title} has no such option"
        elif name not in profile.accepted_options:
            reason = f"{model} accepts no sampling parameters"
        elif name == "top_p" and profile.sampling == "one" and "temperature" in accepted:
            reason = f"{model} accepts temperature or top_p, not both"
        elif name == "temperature" and value > profile.max_temperature:
            accepted[name] = profile.max_temperature
            reason = f"{value} exceeds the maximum of {profile.title}; sent as {profile.max_temperature}"
        elif name == "stop":
            limit = profile.limits.stops
            accepted[name] = list(value[:limit])
            if limit and len(value) > limit:
                reason = f"{profile.title} accepts at most {limit}; the others are dropped"
        else:
            accepted[name] = value
        if reason:
            writer.record_loss(name, reason, at="options")
    fields = SPECS[profile.wire].options
    return {fields[name]: value for name, value in accepted.items()}


def encode_effort(options: Options, writer: Writer) -> str | None:
    """Return the reasoning effort, moved to the nearest level that the target has."""
    effort = options.effort
    levels = writer.profile.efforts
    if effort is None or effort in levels:
        return effort
    model = writer.model or writer.profile.title
    if not levels:
        writer.record_loss("effort", f"{model} has no effort levels", at="options")
        return None
    # Of two levels equally near, take the one nearer to high, as DeepSeek does: minimal -> low, xhigh ->
    # high.
    target = _EFFORT_LEVELS.index(effort)
    high = _EFFORT_LEVELS.index("high")
    nearest = min(
        map(_EFFORT_LEVELS.index, levels), key=lambda level: (abs(level - target), abs(level - high))
    )
    writer.record_loss(
        "effort", f"{model} has no level {effort!r}; sent as {_EFFORT_LEVELS[nearest]!r}", at="options"
    )
    return _EFFORT_LEVELS[nearest]


def select_extras(request: Request, writer: Writer) -> dict[str, Any]:
    """Select the extras for the target's wire and family; all others are losses."""
    accepted: dict[str, Any] = {}
    for family, fields in request.extras.items():
        if family in (writer.profile.wire, SPECS[writer.profile.wire].family):
            accepted.update(fields)  # the caller's own fields are never checked
            continue
        for field, value in fields.items():
            if field in ("cache_control", "prompt_cache_options") and as_dict(value).keys() <= {
                "type",
                "ttl",
            }:
                continue  # `Options.cache` says it
            if value is not None:
                writer.record_loss(
                    field, f"{writer.profile.title} has no equivalent of this {family} field", at="request"
                )
    return accepted
