"""The refusal of a request, before it is written in a provider's own form (`wires`)."""

from typing import Literal

__all__ = ["Refusal", "RefusalKind"]

RefusalKind = Literal[
    "invalid", "no_key", "auth", "missing", "method", "large", "too_long", "rate", "quota", "server", "overloaded"
]


class Refusal(Exception):
    """A request is refused, or an error was asked for.

    Args:
        retry_after: The `Retry-After` that the client is told: seconds or a date.
        is_plain_text: The body is the message itself, not JSON.
        unknown_field: The field that the vendor does not know; some report it in a form of its own.
    """

    def __init__(
        self,
        message: str,
        kind: RefusalKind = "invalid",
        *,
        code: str = "",
        param: str | None = None,
        retry_after: str | None = None,
        is_plain_text: bool = False,
        unknown_field: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: RefusalKind = kind
        self.message, self.code, self.param = message, code, param
        self.retry_after, self.is_plain_text, self.unknown_field = retry_after, is_plain_text, unknown_field
