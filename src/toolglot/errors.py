"""Every error of toolglot.

ToolglotError
├── UsageError                 the caller asked for something that does not exist or cannot be
│   ├── UnknownName            an unknown wire, provider, tool …: names the nearest known ones
│   ├── WouldLose              strict was asked for, and the target cannot say everything
│   ├── LimitExceeded          preflight: a tool or request over a provider's limit
│   ├── NotATool               a function, schema or name that cannot be a tool
│   ├── NameConflict           two tools of one name
│   └── ReplayMiss             a replay has no such exchange: names the nearest one and where it differs
├── MalformedData              bytes that are not what they should be
│   ├── MalformedReply         a provider's answer that its wire does not allow
│   │   └── TruncatedStream    the answer ended before its terminal
│   └── MalformedRequest       a request body that its wire does not allow
├── ProviderError              the provider said no; `retryable` says whether to ask again
│   ├── InvalidRequest         400, 413, 422 …
│   │   └── ContextTooLong     the conversation does not fit the model
│   ├── AuthenticationFailed   401
│   ├── PermissionDenied       403
│   ├── NotFound               404
│   ├── QuotaExceeded          402, or 429 with a quota code: waiting does not help
│   ├── RateLimited            429
│   ├── ContentBlocked         a safety filter refused the request
│   ├── Overloaded             503, 529
│   └── ServerFailed           any other 5xx, and errors inside a stream
├── TransportError             no whole answer came: asking again may help
│   ├── ConnectFailed          the provider could not be reached
│   ├── TimedOut               it did not answer in time
│   └── ConnectionLost         the connection broke before the answer was whole
└── ToolError                  a tool call that failed; tools may raise it themselves

Any other exception out of a codec is a bug in toolglot.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from toolglot.textutil import did_you_mean, suggest

if TYPE_CHECKING:
    from toolglot.losses import Loss


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
"""Why a call has no good result."""


class ToolglotError(Exception):
    """The root of the tree."""

    @property
    def type(self) -> str:
        """The name of the error in JSON answers."""
        return type(self).__name__


class UsageError(ToolglotError):
    """The caller asked for something that does not exist or cannot be."""


_MAX_LISTED_NAMES = 12


class UnknownName(UsageError):
    """A name that is not known; the message offers the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        more = f" and {len(known) - _MAX_LISTED_NAMES} more" if len(known) > _MAX_LISTED_NAMES else ""
        offered = f"there are {', '.join(known[:_MAX_LISTED_NAMES]) or 'none'}{more}"
        super().__init__(f"unknown {kind} {name!r}; {did_you_mean(suggest(name, known)) or offered}")
        self.name = name


class LossyEncoding(UsageError):
    """Strict encoding was asked for, and these losses stand in the way."""

    def __init__(self, losses: "Iterable[Loss]") -> None:
        self.losses = tuple(losses)
        super().__init__("the target cannot say everything: " + "; ".join(map(str, self.losses)))


class LimitExceeded(UsageError):
    """A limit of a provider, named before a byte is sent."""

    def __init__(self, quantity: str, limit: int | str, value: int | str, provider: str) -> None:
        super().__init__(f"{quantity} is {value}, over the limit of {provider}: {limit}")
        self.quantity, self.limit, self.value, self.provider = quantity, limit, value, provider


class InvalidTool(UsageError):
    """A function, schema or name that cannot be a tool."""


class NameConflict(UsageError):
    """Two tools of one name."""


class ReplayMiss(UsageError):
    """A replay has no such exchange."""


class MalformedData(ToolglotError):
    """Bytes that are not what they should be."""


class MalformedReply(MalformedData):
    """A provider's answer that its wire does not allow."""


class TruncatedStream(MalformedReply):
    """The answer ended before its terminal: what came so far is not a reply."""


class MalformedRequest(MalformedData):
    """A request body that its wire does not allow."""


class ProviderError(ToolglotError):
    """The provider said no. `request_id`: what the provider calls the request, "" where it does not say."""

    retryable = False

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
        self.status, self.code, self.retry_after, self.body, self.request_id = status, code, retry_after, body, request_id


class InvalidRequest(ProviderError):
    """The request itself is refused."""


class ContextTooLong(InvalidRequest):
    """The conversation does not fit the model."""


class AuthenticationFailed(ProviderError):
    """No key, or a wrong one."""


class PermissionDenied(ProviderError):
    """The key may not do this."""


class NotFound(ProviderError):
    """No such model or endpoint."""


class QuotaExceeded(ProviderError):
    """Out of credit: waiting does not help."""


class RateLimited(ProviderError):
    """Too many requests for now."""

    retryable = True


class ContentBlocked(ProviderError):
    """A safety filter refused the request."""


class Overloaded(ProviderError):
    """The provider is busy."""

    retryable = True


class ServerFailed(ProviderError):
    """The provider failed."""

    retryable = True


class TransportError(ToolglotError):
    """No whole answer came."""

    retryable = True


class ConnectFailed(TransportError):
    """The provider could not be reached: no such host, nobody listens, TLS or a proxy failed."""


class TimedOut(TransportError):
    """The provider did not answer in time. `phase`: connect, first byte or idle."""

    def __init__(self, message: str, phase: str = "") -> None:
        super().__init__(message)
        self.phase = phase


class ConnectionLost(TransportError):
    """The connection broke before the answer was whole."""


class ToolError(ToolglotError):
    """A tool call that failed. A tool that raises it decides what the model reads, and whether trying again may help."""

    def __init__(
        self,
        message: str,
        *,
        kind: ToolErrorKind = "execution",
        tool: str = "",
        call_id: str = "",
        details: Any = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ToolErrorKind = kind
        self.tool, self.call_id, self.details = tool, call_id, details
        self.retryable, self.retry_after = retryable, retry_after
