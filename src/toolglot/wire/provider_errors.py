"""Classifies the error bodies of all providers with one table."""

import re
from collections.abc import Sequence
from typing import Any, cast

from toolglot import errors
from toolglot.common.jsontext import dumps_text
from toolglot.errors import ProviderError
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts, to_text

# Pattern in a code or type -> error. The first match counts: quota comes before rate, because both arrive as
# 429.
_ERRORS_BY_CODE: tuple[tuple[str, type[ProviderError]], ...] = (
    (
        r"insufficient_quota|billing|credit_balance|spend_limit|usage_limit|insufficient_balance",
        errors.QuotaExceeded,
    ),
    (r"context_length|context_window|3051", errors.ContextTooLong),  # 3051: Mistral
    (r"content_filter|content_policy|responsibleai|moderation|policy_violation", errors.ContentBlocked),
    (r"rate_limit|resource_exhausted|throttling|too_many_requests", errors.RateLimited),
    (r"overloaded|unavailable|modelnotready|server_is_overloaded", errors.Overloaded),
    (
        r"authentication|invalid_api_key|api_key_invalid|unauthenticated|unauthorized",
        errors.AuthenticationFailed,
    ),
    (r"permission", errors.PermissionDenied),
    (r"not_found", errors.NotFound),
    (
        r"invalid|validation|bad_request|too_large|too_long|above_max|below_min|failed_precondition|unsupported"
        r"|tool_use_failed|model_not_supported",
        errors.InvalidRequest,
    ),
    (r"server_error|api_error|internal|timeout|deadline", errors.ServerFailed),
)
_ERRORS_BY_STATUS: dict[int, type[ProviderError]] = {
    401: errors.AuthenticationFailed,
    402: errors.QuotaExceeded,
    403: errors.PermissionDenied,
    404: errors.NotFound,
    429: errors.RateLimited,
    **dict.fromkeys((408, 409, 425), errors.ServerFailed),  # 409: a lock; worth a retry
    **dict.fromkeys((498, 503, 529), errors.Overloaded),  # 498: Groq's flex capacity; 529: Anthropic
}
_HTML_PAGE = re.compile(r"<!doctype html|<html|<head|<body", re.IGNORECASE)
# OpenAI and Mistral have a code for it; the others can be told from their message.
_CONTEXT_TOO_LONG = re.compile(
    r"context length|context window|context size|maximum context|prompt is too long|token count .* "
    r"exceeds|too many tokens",
    re.IGNORECASE,
)
_NO_REASON = "the provider gave no reason"


def error_from_body(body: Any, status: int | None = None) -> ProviderError:
    """Return the error that a body describes. `status` is None for an error inside a stream or a 200."""
    if isinstance(body, list) and body:  # Google wraps errors in a list of one
        body = cast(Any, body[0])
    outer = as_dict(body)
    # Responses nests the error of `response.failed`.
    inner = cast(Any, as_dict(outer.get("response")).get("error") or outer.get("error") or body)
    if status is None or status < 400:
        status = _find_status(inner) or _find_status(body)
    details = list(iter_dicts(as_dict(inner).get("details")))
    code = _find_code(details, (as_dict(inner), outer))
    message = _find_message(inner, body)
    error_class = _select_class(status, code, message)
    return error_class(message, status=status, code=code, retry_after=_find_delay(details), body=body)


def _find_code(details: list[Doc], sources: Sequence[Doc]) -> str:
    """Return the most specific code of an error."""
    for detail in details:  # Google's ErrorInfo
        if reason := as_text(detail.get("reason")):
            return reason
    for source in sources:
        for key in ("code", "type", "status", "__type"):
            value = source.get(key)
            if isinstance(value, str) and value != "error":
                return value
    return ""


def _find_delay(details: list[Doc]) -> float | None:
    """Return the seconds to wait of Google's RetryInfo; other providers use a header."""
    for detail in details:
        if match := re.fullmatch(r"(\d+(?:\.\d+)?)s", as_text(detail.get("retryDelay"))):
            return float(match[1])
    return None


def _find_message(inner: Any, body: Any) -> str:
    if isinstance(inner, str):  # xAI and Ollama; or a proxy's page, of which the title says most
        text = _read_page(inner) if _HTML_PAGE.search(inner[:2000]) else inner.strip()
        return text or _NO_REASON
    fields = as_dict(inner)
    for key in ("message", "detail", "Message", "error", "msg"):
        if value := fields.get(key):
            return to_text(value)
    if not body:
        return _NO_REASON
    return dumps_text(body)[:500]


def _read_page(page: str) -> str:
    """Return the title of a web page, or the beginning of its text."""
    page = page[:20_000]
    title = re.search(r"(?is)<title[^>]{0,200}>(.{0,500}?)</title>", page)
    text = title[1] if title and title[1].strip() else page
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())[:500]


def _find_status(inner: Any) -> int | None:
    for key in ("code", "status", "status_code"):
        value = as_dict(inner).get(key)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str) and re.fullmatch(r"[45]\d\d", value):
            return int(value)
    return None


def _select_class(status: int | None, code: str, message: str) -> type[ProviderError]:
    if status in (None, 400, 413, 422) and _CONTEXT_TOO_LONG.search(message):
        return errors.ContextTooLong
    by_code = _class_of_code(code.lower())
    if status is None or status < 400:
        return by_code or errors.ServerFailed
    if by_code is not None and _may_refine(by_code, status):
        return by_code
    default = errors.ServerFailed if status >= 500 else errors.InvalidRequest
    return _ERRORS_BY_STATUS.get(status, default)


def _class_of_code(code: str) -> type[ProviderError] | None:
    for pattern, error_class in _ERRORS_BY_CODE:
        if re.search(pattern, code):
            return error_class
    return None


def _may_refine(error: type[ProviderError], status: int) -> bool:
    """Return whether the class that a code stands for says more than the status does."""
    if status == 429:
        return error is errors.QuotaExceeded  # to wait does not help
    # A 400 with a code such as "overloaded" is still the request's fault: it is never retried.
    return status in (400, 413, 422) and not error.retryable
