"""What an error body means: which error, whether to ask again, what to tell."""

from typing import Any

import pytest

from toolglot import errors
from toolglot.errors import ProviderError
from toolglot.wire.provider_errors import error_from_body

E = errors


def openai(message: str = "no", *, type: str | None = None, code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


def anthropic(type: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "r"}


def google(code: int, status: str, message: str = "no", details: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": details or []}}


# ---- the status of the HTTP answer decides


@pytest.mark.parametrize(("status", "kind", "retryable"), [
    (400, E.InvalidRequest, False),
    (401, E.AuthenticationFailed, False),
    (402, E.QuotaExceeded, False),
    (403, E.PermissionDenied, False),
    (404, E.NotFound, False),
    (405, E.InvalidRequest, False),
    (408, E.ServerFailed, True),
    (409, E.ServerFailed, True),
    (410, E.InvalidRequest, False),
    (413, E.InvalidRequest, False),
    (415, E.InvalidRequest, False),
    (422, E.InvalidRequest, False),
    (425, E.ServerFailed, True),
    (429, E.RateLimited, True),
    (498, E.Overloaded, True),
    (500, E.ServerFailed, True),
    (502, E.ServerFailed, True),
    (503, E.Overloaded, True),
    (504, E.ServerFailed, True),
    (520, E.ServerFailed, True),
    (524, E.ServerFailed, True),
    (529, E.Overloaded, True),
])  # fmt: skip
@pytest.mark.parametrize(
    "body", [openai(), {"error": "no"}, {"detail": "no"}, "no"], ids=["object", "text", "detail", "bare"]
)
def test_the_status_decides(status: int, kind: type[ProviderError], retryable: bool, body: Any) -> None:
    error = error_from_body(body, status)
    assert (type(error), error.retryable, error.status, str(error)) == (kind, retryable, status, "no")
    assert error.body == body


QUOTA = [
    *(
        "insufficient_quota",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
    ),
    *("project_spend_limit_exceeded", "organization_usage_limit_exceeded"),
]


@pytest.mark.parametrize("code", QUOTA)
def test_a_quota_is_not_a_rate(code: str) -> None:
    for error in (
        error_from_body(openai(code=code), 429),
        error_from_body(openai(type=code), 429),
        error_from_body(openai(code=code)),
    ):
        assert (type(error), error.retryable, error.code) == (E.QuotaExceeded, False, code)
    assert type(error_from_body(openai(type="tokens", code="rate_limit_exceeded"), 429)) is E.RateLimited


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (openai(code="context_length_exceeded"), 400, E.ContextTooLong),
        (openai("This model's maximum context length is 8192 tokens"), 400, E.ContextTooLong),
        (
            anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            400,
            E.ContextTooLong,
        ),
        (
            google(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number"),
            400,
            E.ContextTooLong,
        ),
        ({"message": "too long", "code": "3051"}, 422, E.ContextTooLong),
        ({"error": "context window exceeded"}, 413, E.ContextTooLong),
        (  # llama.cpp
            openai(
                "request (9 tokens) exceeds the available context size (8 tokens)",
                type="exceed_context_size_error",
            ),
            400,
            E.ContextTooLong,
        ),
        (openai("see the docs on context length"), 401, E.AuthenticationFailed),
        (openai("maximum context"), 500, E.ServerFailed),
        (openai(code="content_filter"), 400, E.ContentBlocked),
        (
            {"error": {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            400,
            E.ContentBlocked,
        ),
        (openai(code="model_not_found"), 400, E.NotFound),
        (openai(code="tool_use_failed", type="invalid_request_error"), 400, E.InvalidRequest),
        (openai(code="model_not_supported"), 400, E.InvalidRequest),
        (openai(code="rate_limit_exceeded"), 400, E.InvalidRequest),  # a 400 is never asked again
        ({"code": "bad_thing", "error": "text"}, 400, E.InvalidRequest),
    ],
    ids=lambda value: value if isinstance(value, int) else None,
)
def test_a_400_is_classified_by_its_code_or_message(
    body: Any, status: int, kind: type[ProviderError]
) -> None:
    error = error_from_body(body, status)
    assert (type(error), error.status) == (kind, status)


# ---- inside a stream or a 200 there is no status: the body decides


@pytest.mark.parametrize(("body", "kind", "status", "code"), [
    (anthropic("invalid_request_error"), E.InvalidRequest, None, "invalid_request_error"),
    (anthropic("authentication_error"), E.AuthenticationFailed, None, "authentication_error"),
    (anthropic("billing_error"), E.QuotaExceeded, None, "billing_error"),
    (anthropic("permission_error"), E.PermissionDenied, None, "permission_error"),
    (anthropic("not_found_error"), E.NotFound, None, "not_found_error"),
    (anthropic("request_too_large"), E.InvalidRequest, None, "request_too_large"),
    (anthropic("rate_limit_error"), E.RateLimited, None, "rate_limit_error"),
    (anthropic("api_error"), E.ServerFailed, None, "api_error"),
    (anthropic("timeout_error"), E.ServerFailed, None, "timeout_error"),
    (anthropic("overloaded_error"), E.Overloaded, None, "overloaded_error"),
    (google(429, "RESOURCE_EXHAUSTED"), E.RateLimited, 429, "RESOURCE_EXHAUSTED"),
    (google(503, "UNAVAILABLE"), E.Overloaded, 503, "UNAVAILABLE"),
    (google(500, "INTERNAL"), E.ServerFailed, 500, "INTERNAL"),
    (google(400, "INVALID_ARGUMENT"), E.InvalidRequest, 400, "INVALID_ARGUMENT"),
    ([google(403, "PERMISSION_DENIED")], E.PermissionDenied, 403, "PERMISSION_DENIED"),
    (openai(code=402), E.QuotaExceeded, 402, ""),
    (openai(code="502"), E.ServerFailed, 502, "502"),
    (openai(code="server_error"), E.ServerFailed, None, "server_error"),
    (openai(code="unheard_of"), E.ServerFailed, None, "unheard_of"),
    (openai(code="string_above_max_length", type="invalid_request_error"), E.InvalidRequest, None, "string_above_max_length"),
    (openai(code=200), E.ServerFailed, None, ""),
    ({"error": {"message": "no", "status_code": 404}}, E.NotFound, 404, ""),
    ({"error": "no", "status": 400}, E.InvalidRequest, 400, ""),
    ({"code": "invalid_argument", "error": "no"}, E.InvalidRequest, None, "invalid_argument"),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "no"}, E.RateLimited, None, "rate_limit_exceeded"),
    ({"response": {"error": {"code": "server_error", "message": "no"}}}, E.ServerFailed, None, "server_error"),
    ({"response": {"error": {"code": "invalid_prompt", "message": "no"}}}, E.InvalidRequest, None, "invalid_prompt"),
    ({"__type": "ThrottlingException", "message": "no"}, E.RateLimited, None, "ThrottlingException"),
    ({"error": "no"}, E.ServerFailed, None, ""),
    ("no", E.ServerFailed, None, ""),
], ids=lambda value: value if isinstance(value, str) else None)  # fmt: skip
def test_an_error_without_a_status(
    body: Any, kind: type[ProviderError], status: int | None, code: str
) -> None:
    error = error_from_body(body)
    assert (type(error), error.status, error.code, str(error)) == (kind, status, code, "no")


def test_a_status_of_success_counts_as_none() -> None:
    assert type(error_from_body(anthropic("overloaded_error"), 200)) is E.Overloaded
    assert error_from_body(google(404, "NOT_FOUND"), 200).status == 404


@pytest.mark.parametrize(("body", "message"), [
    ("  text \n", "text"),
    ("", "the provider gave no reason"),
    ("  ", "the provider gave no reason"),
    (None, "the provider gave no reason"),
    ([], "the provider gave no reason"),
    ({}, "the provider gave no reason"),
    ({"error": {"message": "", "detail": "why"}}, "why"),
    ({"detail": [{"loc": ["a"], "msg": "why"}]}, '[{"loc":["a"],"msg":"why"}]'),
    ({"Message": "why"}, "why"),
    ({"msg": "why"}, "why"),
    ({"error": {"error": "why"}}, "why"),
    ({"error": {"code": 7}}, '{"error":{"code":7}}'),
    ([7], "7"),
], ids=repr)  # fmt: skip
def test_the_message_is_found_wherever_it_lies(body: Any, message: str) -> None:
    assert str(error_from_body(body, 400)) == message


def test_a_message_taken_from_a_body_is_short() -> None:
    assert len(str(error_from_body({"x": "y" * 9000}, 400))) == 500


@pytest.mark.parametrize(("details", "seconds"), [
    ([{"@type": "a"}, {"@type": "RetryInfo", "retryDelay": "37s"}], 37.0),
    ([{"retryDelay": "1.5s"}], 1.5),
    ([{"retryDelay": "soon"}, {"retryDelay": 7}, 7, None], None),
    ([], None),
    ("37s", None),
    (None, None),
])  # fmt: skip
def test_googles_retry_delay_is_read(details: Any, seconds: float | None) -> None:
    assert error_from_body({"error": {"code": 429, "details": details}}, 429).retry_after == seconds
    assert error_from_body("no", 429).retry_after is None
