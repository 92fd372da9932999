"""When a request is retried, and after how long: by what the provider says."""

import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import errors
from toolglot.engine.retry import parse_retry_after, retry_delay
from toolglot.tools.config import RetryConfig
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import error_from_response

NOW = 1_800_000_000.0
CONFIG = RetryConfig(max_retries=3, base=1.0, factor=2.0, max_delay=3.0, jitter=0.5, max_wait=60.0)


def wait(
    error: errors.ToolglotError, headers: dict[str, str] | None = None, attempt: int = 0, chance: float = 0.0
) -> Any:
    return retry_delay(error, headers or {}, attempt, CONFIG, chance=chance, now=NOW)


# ---- what the headers say


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
def test_parse_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(("text", "delay"), [("nan", 1.0), ("NaN", 1.0), ("-5", 0.0), ("-0.1", 0.0)])
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_odd_numbers(name: str, text: str, delay: float) -> None:
    """What is no number counts as nothing said: the own backoff applies."""
    assert wait(errors.RateLimited("slow"), {name: text}) == delay


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
        ",",
    ]
)


@given(
    st.one_of(
        st.text(), st.lists(PIECES, max_size=9).map("".join), st.floats().map(str), st.integers().map(str)
    )
)
def test_any_header_gives_a_delay_or_none(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        seconds = wait(errors.RateLimited("slow"), {name: text})
        assert seconds is None or 0.0 <= seconds <= CONFIG.max_wait


# ---- what is retried


@pytest.mark.parametrize("error", [
    *(kind("x") for kind in (errors.RateLimited, errors.Overloaded, errors.ServerFailed, errors.ConnectFailed)),
    *(kind("x") for kind in (errors.ConnectionLost, errors.MalformedReply, errors.TruncatedStream)),
    errors.TimedOut("x", "idle"),
], ids=lambda error: error.type)  # fmt: skip
def test_retried_errors(error: errors.ToolglotError) -> None:
    assert wait(error) == 1.0
    assert wait(error, {"x-should-retry": "true"}) == 1.0
    assert wait(error, {"x-should-retry": "false"}) is None


FINAL_TYPES = (
    "InvalidRequest",
    "ContextTooLong",
    "AuthenticationFailed",
    "PermissionDenied",
    "NotFound",
    "ContentBlocked",
)


@pytest.mark.parametrize("name", FINAL_TYPES)
def test_errors_that_are_final_unless_the_provider_says_otherwise(name: str) -> None:
    error: errors.ProviderError = getattr(errors, name)("x")
    assert wait(error) is None
    assert wait(error, {"retry-after": "1"}) is None
    assert wait(error, {"x-should-retry": "true"}) == 1.0
    assert wait(error, {"x-should-retry": "perhaps"}) is None


@pytest.mark.parametrize("headers", [{}, {"retry-after": "1"}, {"x-should-retry": "true"}])
def test_an_exhausted_quota_is_final(headers: dict[str, str]) -> None:
    assert wait(errors.QuotaExceeded("x"), headers) is None


def test_mistakes_of_the_caller_are_final() -> None:
    assert wait(errors.UsageError("x")) is None


@pytest.mark.parametrize(("delay", "statuses"), [
    (1.0, [408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529]),
    (None, [400, 401, 402, 403, 404, 405, 410, 413, 415, 422]),
    (None, [301, 302, 307, 308]),  # a base URL that leads elsewhere is wrong the second time too
])  # fmt: skip
def test_statuses(delay: float | None, statuses: list[int]) -> None:
    assert {status: wait(error_from_response(status, b"{}")) for status in statuses} == dict.fromkeys(
        statuses, delay
    )


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached", "insufficient_balance"])
def test_a_429_about_money_is_final(code: str) -> None:
    error = error_from_response(429, b'{"error": {"message": "pay", "code": "%s"}}' % code.encode())
    assert isinstance(error, errors.QuotaExceeded)
    assert wait(error, {"retry-after": "1"}) is None


# ---- how long


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 1.0), (1, 2.0), (2, 3.0), (3, None), (9, None)])
def test_backoff_grows_to_its_limit_and_ends(attempt: int, seconds: float | None) -> None:
    assert wait(errors.Overloaded("x"), attempt=attempt) == seconds
    if seconds is None:
        assert wait(errors.RateLimited("x"), {"retry-after": "1", "x-should-retry": "true"}, attempt) is None


def test_jitter_only_shortens() -> None:
    assert wait(errors.Overloaded("x"), chance=1.0) == 0.5
    assert wait(errors.Overloaded("x"), {"retry-after": "2"}, chance=1.0) == 2.0


@pytest.mark.parametrize(("headers", "seconds"), [
    ({"retry-after": "60"}, 60.0),
    ({"retry-after": "61"}, None),
    ({"retry-after-ms": "60001"}, None),
    ({"retry-after": date(61)}, None),
    ({"retry-after": date(59)}, 59.0),
    ({"retry-after": "3600", "x-should-retry": "true"}, None),
])  # fmt: skip
def test_a_delay_that_is_too_long_is_not_waited_for(headers: dict[str, str], seconds: float | None) -> None:
    assert wait(errors.RateLimited("x"), headers) == seconds


def google(delay: Any) -> errors.ProviderError:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    return error_from_body(
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": [detail]}}, 429
    )


@pytest.mark.parametrize(
    ("delay", "seconds"), [("39s", 39.0), ("0.5s", 0.5), ("0s", 0.0), ("61s", None), ("soon", 1.0), (5, 1.0)]
)
def test_a_delay_in_the_body(delay: Any, seconds: float | None) -> None:
    assert wait(google(delay)) == seconds


def test_headers_go_before_the_body() -> None:
    assert wait(google("39s"), {"retry-after": "2"}) == 2.0


def test_a_call_that_the_provider_refuses_is_retried() -> None:
    """Groq checks the model's call and refuses it: the request itself was right."""
    refused = error_from_body(
        {"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}, 400
    )
    assert wait(refused) is not None
    assert wait(error_from_body({"error": {"message": "bad", "code": "invalid_value"}}, 400)) is None
