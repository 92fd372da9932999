"""Generation options for a target: what it takes, under their neutral names; the rest are Losses."""

from typing import Any

from toolglot.request import Options, Request
from toolglot.wire.spec import SPECS
from toolglot.wire.writer import Writer

__all__ = ["encode_effort", "encode_sampling", "select_extras"]

_EFFORT_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def encode_sampling(options: Options, writer: Writer) -> dict[str, Any]:
    """The sampling options that the target takes, under their neutral names; the rest are losses."""
    profile, sent = writer.profile, dict[str, Any]()
    for name in ("temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty"):
        value = getattr(options, name)
        if value is None or value == ():
            continue
        if name not in profile.options:
            writer.record_loss(name, "options", f"{profile.title} has no such option")
        elif profile.sampling == "none" and name not in ("stop", "seed"):
            writer.record_loss(name, "options", f"{writer.model or profile.title} takes no sampling parameters")
        elif profile.sampling == "one" and name == "top_p" and "temperature" in sent:
            writer.record_loss(name, "options", f"{writer.model} takes temperature or top_p, not both")
        elif name == "temperature" and value > profile.max_temperature:
            writer.record_loss(
                name,
                "options",
                f"{value} is over the most that {profile.title} takes; sent as {profile.max_temperature}",
            )
            sent[name] = profile.max_temperature
        elif name == "stop":
            sent[name] = _limit_stops(value, writer)
        else:
            sent[name] = value
    return sent


def _limit_stops(stops: tuple[str, ...], writer: Writer) -> list[str]:
    most = writer.profile.limits.stops
    if most and len(stops) > most:
        writer.record_loss("stop", "options", f"{writer.profile.title} takes {most} at most; the rest are left out")
    return list(stops[:most])


def encode_effort(options: Options, writer: Writer) -> str | None:
    """The reasoning effort, moved to the nearest level that the target knows."""
    effort, levels = options.effort, writer.profile.efforts
    if effort is None or effort in levels:
        return effort
    if not levels or effort not in _EFFORT_LEVELS:
        writer.record_loss("effort", "options", f"{writer.model or writer.profile.title} has no levels of effort")
        return None
    wanted, high = _EFFORT_LEVELS.index(effort), _EFFORT_LEVELS.index("high")
    places = sorted(
        (_EFFORT_LEVELS.index(level) for level in levels), key=lambda place: (abs(place - wanted), abs(place - high))
    )
    nearest = _EFFORT_LEVELS[places[0]]  # of two as near, the one that is nearer to high: DeepSeek's own rule
    writer.record_loss("effort", "options", f"{writer.model or writer.profile.title} has no {effort!r}; sent as {nearest!r}")
    return nearest


def select_extras(request: Request, writer: Writer) -> dict[str, Any]:
    """The extras for the target's wire; all others are losses."""
    sent: dict[str, Any] = {}
    for family, fields in request.extras.items():
        if family in (writer.profile.wire, SPECS[writer.profile.wire].family):
            sent.update(fields)
            continue
        for field, value in fields.items():
            if value is not None:
                writer.record_loss(field, "request", f"only {family} understands it")
    return sent
