"""All errors that toolglot raises: mistakes of the caller, malformed data, and failures of providers,
transports and tools.

Any other exception raised by a codec is a bug in toolglot.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from toolglot.common.textutil import did_you_mean, suggest

if TYPE_CHECKING:
    from toolglot.values.events import RunResult
    from toolglot.values.losses import Loss


ToolErrorKind = Literal[
    "validation",
    "not_found",
    "not_allowed",
    "rejected",
    "timeout",
    "cancelled",
    "interrupted",
    "truncated",
    "limit",
    "execution",
    "unknown_outcome",
]
"""Why a call failed."""


class ToolglotError(Exception):
    """The base class of all toolglot errors; `retryable` says whether a retry may help."""

    retryable = False

    @property
    def type(self) -> str:
        """The error's name in JSON output."""
        return type(self).__name__

    @property
    def message(self) -> str:
        """What went wrong: in an error of a request, what the provider said, without who was asked and what
        to do.
        """
        return str(self.args[0]) if self.args else ""


class UsageError(ToolglotError):
    """The caller asked for something that does not exist or is not possible."""


_MAX_LISTED_NAMES = 30
_MAX_NAME_SHOWN = 80  # characters: a model can make up any name


class UnknownName(UsageError):
    """An unknown name; the message suggests the closest known names.

    `hint` is the message without the kind.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        others = f" and {len(known) - _MAX_LISTED_NAMES} more" if len(known) > _MAX_LISTED_NAMES else ""
        offered = f"known: {', '.join(known[:_MAX_LISTED_NAMES]) or 'none'}{others}"
        shown = name if len(name) <= _MAX_NAME_SHOWN else name[:_MAX_NAME_SHOWN] + "…"
        self.name, self.hint = name, f"{shown!r}; {did_you_mean(suggest(shown, known)) or offered}"
        super().__init__(f"unknown {kind} {self.hint}")


class LossyEncoding(UsageError):
    """Strict encoding was requested, but these losses would occur."""

    def __init__(self, losses: "Iterable[Loss]") -> None:
        self.losses: tuple[Loss, ...] = tuple(losses)
        super().__init__("the target cannot express everything: " + "; ".join(map(str, self.losses)))


class InvalidTool(UsageError):
    """A function, schema or name that cannot become a tool."""


class NameConflict(UsageError):
    """Two tools share a name."""


class ReplayMiss(UsageError):
    """No recorded exchange matches the request; the message names the closest one and where it differs."""


class RequestFailed(ToolglotError):
    """A request to a model failed.

    The fields are "" where none was sent, as when recorded bytes are decoded.
    """

    provider = ""
    """Who was asked: the part of `Agent.model` before the colon."""
    model = ""
    """Which model was asked."""
    url = ""
    """Where, without the query, which may hold a key. "" on the simulator."""
    hint = ""
    """What to do about it, in a few words."""
    status: int | None = None

    def __str__(self) -> str:
        text = self.message
        if self.provider:
            status = "" if self.status is None else str(self.status)
            place = " ".join(filter(None, (status, self.url and f"from {self.url}")))
            text = f"{self.provider}:{self.model}: {text.rstrip().rstrip('.')}" + (
                f" ({place})" if place else ""
            )
        return f"{text}; {self.hint}" if self.hint else text


class MalformedData(ToolglotError):
    """Data that does not have the expected format."""


class MalformedReply(MalformedData, RequestFailed):
    """A provider's reply that does not have the form of its API; `retryable`, because the next one may be valid."""

    retryable = True


class ReplyTooLarge(MalformedReply):
    """The reply is larger than any model would send."""

    retryable = False


class TruncatedStream(MalformedReply):
    """The reply ended before its terminal event, so it is incomplete."""


STOP_REASONS = {
    "length": "the reply was truncated by the length limit",
    "refusal": "the model refused to answer",
    "filtered": "a safety filter stopped the reply",
    "error": "the provider stopped the reply with an error",
    "max_iterations": "the run used up its turns",
    "budget": "the run used up its tokens or its cost",
    "timeout": "the run used up its time",
    "interrupted": "the run was interrupted",
}
"""Why a run ended without a complete answer."""


class MissingOutput(MalformedReply):
    """The run ended without the requested structured output; `result` is its result nevertheless."""

    _HINTS: ClassVar[dict[str, str]] = {
        "length": "raise max_tokens in Options, or ask for less",
        "max_iterations": "raise max_iterations in RunLimits",
        "budget": "raise max_total_tokens or max_cost in RunLimits",
        "timeout": "raise run_timeout in RunLimits",
    }

    def __init__(self, result: "RunResult", problem: str = "") -> None:
        self.result = result
        if not problem:
            hint = self._HINTS.get(result.stop)
            problem = STOP_REASONS.get(result.stop, result.stop) + (f"; {hint}" if hint else "")
        super().__init__(f"there is no structured output: {problem}")


class MalformedRequest(MalformedData):
    """A request body that does not have the form of its API."""


class ProviderError(RequestFailed):
    """The provider refused the request. `request_id` is "" if unknown."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        retry_after: float | None = None,
        body: Any = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.body = body
        self.request_id = request_id


class InvalidRequest(ProviderError):
    """The request itself is invalid: 400, 413, 422 and others."""


class ContextTooLong(InvalidRequest):
    """The conversation exceeds the model's context window."""


class AuthenticationFailed(ProviderError):
    """The API key is missing or wrong: 401."""


class PermissionDenied(ProviderError):
    """The API key does not permit this: 403."""


class NotFound(ProviderError):
    """No such model or endpoint: 404."""


class QuotaExceeded(ProviderError):
    """Out of credit, so waiting does not help: 402, or 429 with a quota code."""


class RateLimited(ProviderError):
    """Too many requests, retry later: 429."""

    retryable = True


class ContentBlocked(ProviderError):
    """A safety filter refused the request."""


class Overloaded(ProviderError):
    """The provider is overloaded, retry later: 503, 529."""

    retryable = True


class ServerFailed(ProviderError):
    """The provider failed internally: any other 5xx, and errors inside a stream."""

    retryable = True


class TransportError(RequestFailed):
    """No complete reply arrived."""

    retryable = True


class ConnectFailed(TransportError):
    """The provider could not be reached: unknown host, refused connection, TLS or proxy failure."""


class TimedOut(TransportError):
    """The provider did not reply in time. `phase` is connect, first byte or idle."""

    def __init__(self, message: str, phase: str = "") -> None:
        super().__init__(message)
        self.phase = phase


class ConnectionLost(TransportError):
    """The connection broke before the reply was complete."""


class ToolError(ToolglotError):
    """A tool call failed. A tool that raises it decides what the model reads and whether a retry may help.

    `code` is a stable identifier that programs and facades branch on, "" if there is none; `details` is its
    typed data. Nothing should need to parse the message.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ToolErrorKind = "execution",
        code: str = "",
        tool: str = "",
        call_id: str = "",
        details: Any = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ToolErrorKind = kind
        self.code, self.details = code, details
        self.tool, self.call_id = tool, call_id
        self.retryable, self.retry_after = retryable, retry_after
