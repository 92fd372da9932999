"""When a provider is asked again, and how long that takes: by what it says itself."""

import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import errors
from toolglot.engine.retry import parse_retry_after, retry_delay
from toolglot.errors import (
    ConnectFailed,
    ConnectionLost,
    InvalidRequest,
    MalformedReply,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    TimedOut,
    ToolglotError,
    TruncatedStream,
    UsageError,
)
from toolglot.tools.config import RetryConfig
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import error_from_response

NOW = 1_800_000_000.0
CONFIG = RetryConfig(max_retries=3, base=1.0, factor=2.0, max_delay=3.0, jitter=0.5, max_wait=60.0)


def wait(
    error: ToolglotError, headers: dict[str, str] | None = None, attempt: int = 0, chance: float = 0.0, **more: Any
) -> Any:
    return retry_delay(error, headers or {}, attempt, more.get("config", CONFIG), chance=chance, now=NOW)


# ---- what the head says


def date(seconds: float) -> str:
    return formatdate(NOW + seconds, usegmt=True)


@pytest.mark.parametrize(("headers", "seconds"), [
    ({}, None),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "0"}, 0.0),
    ({"retry-after-ms": "12.5"}, 0.0125),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": " 7 "}, 7.0),
    ({"retry-after": "0.25"}, 0.25),
    ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
    ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
    ({"retry-after-ms": "", "retry-after": "7"}, 7.0),
    ({"retry-after": date(30)}, 30.0),
    ({"retry-after": date(0)}, 0.0),
    ({"retry-after": date(-3600)}, 0.0),
    ({"retry-after": "soon"}, None),
    ({"retry-after": ""}, None),
    ({"retry-after": "Mon, 99 Foo 2026"}, None),
    ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None),
    ({"retry-after": "5 seconds"}, None),
])  # fmt: skip
def test_patience_that_is_asked_for(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("text", ["nan", "NaN"])
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_numbers_that_are_none_count_as_nothing_said(name: str, text: str) -> None:
    found = wait(RateLimited("slow"), {name: text})
    assert found == 1.0, "garbage in the head: the own backoff counts"


@pytest.mark.parametrize("text", ["-5", "-0.1"])
def test_less_than_no_patience_is_none(text: str) -> None:
    assert wait(RateLimited("slow"), {"retry-after": text}) == 0.0


def test_dates_without_a_zone_are_in_gmt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two old forms of an HTTP date: both are GMT by their RFC, wherever the program runs."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        asctime = time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(NOW + 30))
        assert parse_retry_after({"retry-after": asctime}, NOW) == pytest.approx(30)
    finally:
        monkeypatch.undo()
        time.tzset()


PIECES = st.sampled_from(
    [
        "Sun, ",
        "Sun ",
        "06",
        "6",
        " ",
        "Nov",
        "-",
        "1994",
        "94",
        "99999",
        "08:49:37",
        "08.49",
        ":",
        "GMT",
        "+0000",
        "-9999",
        "0",
        ",",
        "-",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=9).map("".join), st.floats().map(str), st.integers().map(str)))
def test_no_head_breaks_it(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        seconds = wait(RateLimited("slow"), {name: text})
        assert seconds is None or 0.0 <= seconds <= CONFIG.max_wait


# ---- who is asked again


@pytest.mark.parametrize("error", [
    RateLimited("x"), Overloaded("x"), ServerFailed("x"), ConnectFailed("x"), ConnectionLost("x"), TimedOut("x", "idle"),
    MalformedReply("x"), TruncatedStream("x"),
], ids=lambda error: error.type)  # fmt: skip
def test_asked_again(error: ToolglotError) -> None:
    assert wait(error) == 1.0
    assert wait(error, {"x-should-retry": "true"}) == 1.0
    assert wait(error, {"x-should-retry": "false"}) is None


FINAL = [
    *(kind("x") for kind in (InvalidRequest, errors.ContextTooLong, errors.AuthenticationFailed, errors.PermissionDenied)),
    *(kind("x") for kind in (errors.NotFound, errors.ContentBlocked)),
]


@pytest.mark.parametrize("error", FINAL, ids=lambda error: error.type)
def test_not_asked_again_unless_the_provider_says_so(error: ProviderError) -> None:
    assert wait(error) is None
    assert wait(error, {"retry-after": "1"}) is None
    assert wait(error, {"x-should-retry": "true"}) == 1.0
    assert wait(error, {"x-should-retry": "perhaps"}) is None


@pytest.mark.parametrize("headers", [{}, {"retry-after": "1"}, {"x-should-retry": "true"}])
def test_quota_is_never_asked_again(headers: dict[str, str]) -> None:
    assert wait(QuotaExceeded("x"), headers) is None


def test_mistakes_of_the_caller_are_not_asked_again() -> None:
    assert wait(UsageError("x")) is None


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529])
def test_statuses_that_pass(status: int) -> None:
    assert wait(error_from_response(status, b"{}")) == 1.0


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 415, 422])
def test_statuses_that_stay(status: int) -> None:
    assert wait(error_from_response(status, b"{}")) is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_asked_again(status: int) -> None:
    """A base URL that leads elsewhere is wrong the second time too."""
    assert wait(error_from_response(status, b"")) is None


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"])
def test_429_that_is_about_money(code: str) -> None:
    error = error_from_response(429, b'{"error": {"message": "pay", "code": "%s"}}' % code.encode())
    assert isinstance(error, QuotaExceeded)
    assert wait(error, {"retry-after": "1"}) is None


# ---- how long


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1.0), (1, 2.0), (2, 3.0), (3, None), (9, None)])
def test_backoff_grows_to_its_limit_and_ends(attempt: int, seconds: float | None) -> None:
    assert wait(Overloaded("x"), attempt=attempt) == seconds


def test_jitter_only_shortens() -> None:
    assert wait(Overloaded("x"), chance=1.0) == 0.5
    assert wait(Overloaded("x"), {"retry-after": "2"}, chance=1.0) == 2.0


@pytest.mark.parametrize("attempt", [3, 4])
def test_no_more_attempts_whatever_is_asked_for(attempt: int) -> None:
    assert wait(RateLimited("x"), {"retry-after": "1", "x-should-retry": "true"}, attempt) is None


def test_no_attempts_at_all() -> None:
    assert wait(RateLimited("x"), {"retry-after": "0"}, config=RetryConfig(max_retries=0)) is None


@pytest.mark.parametrize(("headers", "seconds"), [
    ({"retry-after": "60"}, 60.0),
    ({"retry-after": "61"}, None),
    ({"retry-after-ms": "60001"}, None),
    ({"retry-after": date(61)}, None),
    ({"retry-after": date(59)}, 59.0),
    ({"retry-after": "3600", "x-should-retry": "true"}, None),
])  # fmt: skip
def test_too_much_patience_is_not_had(headers: dict[str, str], seconds: float | None) -> None:
    assert wait(RateLimited("x"), headers) == seconds


def google(delay: Any) -> ProviderError:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return error_from_body(
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": [detail]}}, 429
    )


@pytest.mark.parametrize(
    ("delay", "seconds"), [("39s", 39.0), ("0.5s", 0.5), ("0s", 0.0), ("61s", None), ("soon", 1.0), (5, 1.0)]
)
def test_patience_asked_for_in_the_body(delay: Any, seconds: float | None) -> None:
    assert wait(google(delay)) == seconds


def test_the_head_goes_before_the_body() -> None:
    assert wait(google("39s"), {"retry-after": "2"}) == 2.0


def test_a_call_that_the_model_wrote_wrong_is_asked_for_again() -> None:
    """Groq checks the model's call and refuses it: the request itself was right."""
    refused = error_from_body({"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}, 400)
    assert wait(refused) is not None
    assert wait(error_from_body({"error": {"message": "bad", "code": "invalid_value"}}, 400)) is None
