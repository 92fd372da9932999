"""What a provider's error body means: one table for all of them."""

import re
from typing import Any, cast

from toolglot import errors
from toolglot.errors import ProviderError
from toolglot.jsontext import dumps_text
from toolglot.wire.json_values import as_dict, as_text, iter_dicts

__all__ = ["error_from_body"]

# Words in a code or type -> error. The first that fits counts; quota before rate, both arrive as 429.
_ERRORS_BY_CODE: tuple[tuple[str, type[ProviderError]], ...] = (
    (r"insufficient_quota|billing|credit_balance|spend_limit|usage_limit|insufficient_balance", errors.QuotaExceeded),
    (r"context_length|context_window|3051", errors.ContextTooLong),
    (r"content_filter|content_policy|responsibleai|moderation|policy_violation", errors.ContentBlocked),
    (r"rate_limit|resource_exhausted|throttling|too_many_requests", errors.RateLimited),
    (r"overloaded|unavailable|modelnotready|server_is_overloaded", errors.Overloaded),
    (r"authentication|invalid_api_key|api_key_invalid|unauthenticated|unauthorized", errors.AuthenticationFailed),
    (r"permission", errors.PermissionDenied),
    (r"not_found", errors.NotFound),
    (
        r"invalid|validation|bad_request|too_large|too_long|above_max|below_min|failed_precondition|unsupported|tool_use_failed|model_not_supported",
        errors.InvalidRequest,
    ),
    (r"server_error|api_error|internal|timeout|deadline", errors.ServerFailed),
)
_ERRORS_BY_STATUS: dict[int, type[ProviderError]] = {
    401: errors.AuthenticationFailed,
    402: errors.QuotaExceeded,
    403: errors.PermissionDenied,
    404: errors.NotFound,
    408: errors.ServerFailed,
    409: errors.ServerFailed,
    425: errors.ServerFailed,
    429: errors.RateLimited,
    498: errors.Overloaded,
    503: errors.Overloaded,
    529: errors.Overloaded,
}
_HTML_PAGE = re.compile(r"<!doctype html|<html|<head|<body", re.IGNORECASE)
_CONTEXT_TOO_LONG = re.compile(
    r"context length|context window|maximum context|prompt is too long|token count .* exceeds|too many tokens", re.IGNORECASE
)


def error_from_body(body: Any, status: int | None = None) -> ProviderError:
    """The error that a body describes. `status`: of the HTTP answer, None for an error inside a stream or a 200."""
    if isinstance(body, list) and body:  # Google wraps errors in a list of one
        body = cast(Any, body[0])
    inner = _inner_error(body)
    message = _error_message(inner, body)
    code = _error_code(inner, body)
    if status is None or status < 400:
        status = _error_status(inner) or _error_status(body)
    kind = _error_class(status, code, message)
    return kind(message, status=status, code=code, retry_after=_retry_delay(inner), body=body)


def _inner_error(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    body = cast(dict[str, Any], body)
    return as_dict(body.get("response")).get("error") or body.get("error") or body  # Responses: response.failed


def _error_message(inner: Any, body: Any) -> str:
    if isinstance(inner, str):
        return _page_text(inner) or "the provider gave no reason"
    for key in ("message", "detail", "Message", "error", "msg"):
        if value := as_dict(inner).get(key):
            return value if isinstance(value, str) else dumps_text(value)
    return dumps_text(body)[:500] if body else "the provider gave no reason"


def _page_text(text: str) -> str:
    """A page of a proxy as what it says: its title, else its text."""
    if not _HTML_PAGE.search(text[:2000]):
        return text.strip()
    title = re.search(r"(?is)<title[^>]{0,200}>(.{0,500}?)</title>", text[:20_000])
    return " ".join(re.sub(r"<[^>]*>", " ", title[1] if title and title[1].strip() else text[:20_000]).split())[:500]


def _error_code(inner: Any, body: Any) -> str:
    found = [reason for detail in iter_dicts(as_dict(inner).get("details")) if (reason := as_text(detail.get("reason")))]
    for source in (as_dict(inner), as_dict(body)):
        for key in ("code", "type", "status", "__type"):
            value = source.get(key)
            if isinstance(value, str) and value != "error":
                found.append(value)
    return found[0] if found else ""


def _error_status(inner: Any) -> int | None:
    for key in ("code", "status", "status_code"):
        value = as_dict(inner).get(key)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
            return int(value)
    return None


def _error_class(status: int | None, code: str, message: str) -> type[ProviderError]:
    if _CONTEXT_TOO_LONG.search(message) and status in (None, 400, 413, 422):
        return errors.ContextTooLong
    by_code = next((kind for words, kind in _ERRORS_BY_CODE if re.search(words, code.lower())), None)
    if status is None or status < 400:
        return by_code or errors.ServerFailed
    if status == 429:
        return errors.QuotaExceeded if by_code is errors.QuotaExceeded else errors.RateLimited
    if status >= 500:
        return _ERRORS_BY_STATUS.get(status, errors.ServerFailed)
    if status in (400, 413, 422) and by_code and not by_code.retryable:
        return by_code
    return _ERRORS_BY_STATUS.get(status, errors.InvalidRequest)


def _retry_delay(inner: Any) -> float | None:
    """Google's RetryInfo; other providers say it in a header."""
    for detail in iter_dicts(as_dict(inner).get("details")):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (match := re.fullmatch(r"(\d+(?:\.\d+)?)s", delay)):
            return float(match[1])
    return None
