"""When to retry a request, following the provider's own instructions.

Pure: clock and randomness are arguments.

Rate limits, overload, server errors and lost connections are retried; refusals and an exhausted quota are
not.
"""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

from toolglot.errors import MalformedReply, ProviderError, QuotaExceeded, ToolglotError, TransportError
from toolglot.tools.config import RetryConfig

__all__ = ["parse_retry_after", "retry_delay"]

_MODEL_ERROR_CODES = ("tool_use_failed",)  # Groq validates what the model wrote (groq SDK 1.7.0)


def retry_delay(
    error: ToolglotError,
    headers: Mapping[str, str],
    attempt: int,
    config: RetryConfig,
    *,
    chance: float,
    now: float,
) -> float | None:
    """Seconds to wait before a retry; None: do not retry. `now`: seconds since 1970."""
    if attempt >= config.max_retries or not _is_retryable(error, headers):
        return None
    delay = parse_retry_after(headers, now)
    if delay is None and isinstance(error, ProviderError):
        delay = error.retry_after  # from the body: Google's RetryInfo
    if delay is None:
        return config.delay(attempt, chance)
    return max(0.0, delay) if delay <= config.max_wait else None


def _is_retryable(error: ToolglotError, headers: Mapping[str, str]) -> bool:
    # Whatever the header says: an exhausted quota does not recover within our delays.
    if isinstance(error, QuotaExceeded):
        return False
    match headers.get("x-should-retry"):  # OpenAI and Anthropic; their SDKs obey it before anything else
        case "true":
            return True
        case "false":
            return False
        case _:
            if isinstance(error, ProviderError):
                return error.retryable or error.code in _MODEL_ERROR_CODES
            return isinstance(error, TransportError | MalformedReply) and error.retryable


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The delay in seconds that a response's headers ask for; None if they ask for none that can be read."""
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
    # RFC 9110 dates are GMT; a naive result means that the zone was "-0000".
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
