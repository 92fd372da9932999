"""What errors carry, and losses and repairs as values."""

import pytest

from toolglot import errors
from toolglot.common.jsontext import dumps
from toolglot.errors import (
    ContextTooLong,
    InvalidRequest,
    LossyEncoding,
    MalformedReply,
    MalformedRequest,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    ReplyTooLarge,
    ServerFailed,
    ToolError,
    ToolglotError,
    TransportError,
    TruncatedStream,
    UnknownName,
    UsageError,
)
from toolglot.values.losses import Loss, Repair


def test_an_error_knows_its_name() -> None:
    assert ToolglotError.__bases__ == (Exception,)
    assert ToolglotError("x").type == "ToolglotError"
    assert TruncatedStream("x").type == "TruncatedStream"


def test_which_errors_are_retryable() -> None:
    kinds = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, ToolglotError)
    }
    retryable = {kind for kind in kinds if kind.retryable}
    assert retryable & {kind for kind in kinds if issubclass(kind, ProviderError)} == {
        RateLimited,
        Overloaded,
        ServerFailed,
    }
    assert {MalformedReply, TruncatedStream, TransportError} < retryable
    assert not retryable & {ReplyTooLarge, UsageError, MalformedRequest}


def test_a_provider_error_carries_its_details() -> None:
    error = QuotaExceeded("no credit", status=429, code="insufficient_quota", retry_after=1.5, body={"a": 1})
    assert (str(error), error.status, error.code, error.retry_after) == (
        "no credit",
        429,
        "insufficient_quota",
        1.5,
    )
    assert error.body == {"a": 1}
    plain = ProviderError("no")
    assert (plain.status, plain.code, plain.retry_after, plain.body) == (None, "", None, None)
    assert issubclass(ContextTooLong, InvalidRequest)


@pytest.mark.parametrize(
    ("name", "offered", "left"),
    [("antropic", "'anthropic'", "'gemini'"), ("zzz", "known: anthropic, gemini, ollama", "zzzz")],
    ids=["near", "far"],
)
def test_an_unknown_name_offers_the_nearest(name: str, offered: str, left: str) -> None:
    error = UnknownName("wire", name, ["ollama", "gemini", "anthropic"])
    assert error.name == name
    assert str(error).startswith(f"unknown wire {name!r}")
    assert offered in str(error)
    assert left not in str(error)


def test_a_lossy_encoding_names_the_losses() -> None:
    losses = [Loss("audio", "messages[0]", "no sound"), Loss("top_k", "options", "not there")]
    error = LossyEncoding(iter(losses))
    assert error.losses == tuple(losses)
    assert all(str(loss) in str(error) for loss in losses)


@pytest.mark.parametrize("kind", [Loss, Repair])
def test_losses_and_repairs_are_values(kind: type[Loss] | type[Repair]) -> None:
    value = kind("what", "where", "why")
    assert value == kind("what", "where", "why")
    assert len({value, kind("what", "where", "why"), kind("what", "where", "else")}) == 2
    assert str(value) == "what at where: why"
    with pytest.raises(AttributeError):
        value.subject = "x"  # pyright: ignore[reportAttributeAccessIssue]


def test_losses_keep_their_keys_in_json() -> None:
    """`--json` output and saved runs have them since format 1."""
    assert (
        dumps(Loss("audio", "messages[0]", "no sound"))
        == b'{"what":"audio","where":"messages[0]","why":"no sound"}'
    )


def test_a_tool_error_has_a_code_and_details() -> None:
    error = ToolError("no such file", kind="not_found", code="missing_path", details={"path": "a"})
    assert (error.kind, error.code, error.details, error.retryable) == (
        "not_found",
        "missing_path",
        {"path": "a"},
        False,
    )
    assert (ToolError("x").code, ToolError("x").details) == ("", None)
