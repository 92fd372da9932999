"""When to ask a provider again, by what it says itself. Pure: clock and chance are given.

| what came                                   | again?                                             |
|---------------------------------------------|----------------------------------------------------|
| `x-should-retry: true` / `false`            | as it says                                         |
| rate limited, overloaded, failed, no answer | yes                                                |
| the model's call was refused (Groq)         | yes: it may write it right the next time           |
| out of quota, refused, unknown, forbidden   | never                                              |
| `retry-after-ms`, `retry-after`, RetryInfo  | after so long, unless that is longer than `max_wait` |
"""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

from toolglot.errors import MalformedReply, ProviderError, QuotaExceeded, ToolglotError, TransportError
from toolglot.tools.config import RetryConfig

__all__ = ["parse_retry_after", "retry_delay"]

_MODEL_ERROR_CODES = ("tool_use_failed",)  # Groq checks what the model wrote (groq SDK 1.7.0)


def retry_delay(
    error: ToolglotError, headers: Mapping[str, str], attempt: int, config: RetryConfig, *, chance: float, now: float
) -> float | None:
    """Seconds to wait before the provider is asked again; None: it is not. `now`: seconds since 1970."""
    if attempt >= config.max_retries or not _is_retryable(error, headers):
        return None
    asked = parse_retry_after(headers, now)
    if asked is None and isinstance(error, ProviderError):
        asked = error.retry_after
    if asked is None:
        return config.delay(attempt, chance)
    return max(0.0, asked) if asked <= config.max_wait else None


def _is_retryable(error: ToolglotError, headers: Mapping[str, str]) -> bool:
    if isinstance(error, QuotaExceeded):
        return False
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            if isinstance(error, ProviderError):
                return error.retryable or error.code in _MODEL_ERROR_CODES
            return isinstance(error, TransportError | MalformedReply)


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The patience that an answer's head asks for, in seconds; None where it asks for none that can be read."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * scale
        except ValueError:
            continue
        return seconds if isfinite(seconds) else None
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
