"""What to do about a request that failed, in a few words: which key it is about, which setting, which command
helps.
"""

from urllib.parse import urlsplit

from toolglot.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ContentBlocked,
    ContextTooLong,
    NotFound,
    Overloaded,
    PermissionDenied,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    ReplyTooLarge,
    ServerFailed,
    TimedOut,
    ToolglotError,
)
from toolglot.providers.catalog import PROFILES
from toolglot.providers.profile import Profile

__all__ = ["find_hint"]

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_CHECK_URL = "check the base URL"
_LATER = "try again later, or set fallbacks"
_HINTS: dict[type[ToolglotError], str] = {
    QuotaExceeded: "add credit to the account, or use another key",
    RateLimited: "wait, set limits.request_rates, or set fallbacks",
    ContextTooLong: "shorten the conversation, or offer fewer tools",
    ContentBlocked: "change the prompt",
    Overloaded: _LATER,
    ServerFailed: _LATER,
    TimedOut: "raise the timeouts, or try again later",
    ReplyTooLarge: _CHECK_URL,
}

_LOCAL_HINTS = _HINTS | {
    ServerFailed: (
        "see the server's log; a model that cannot call tools may fail like this: try it without them"
    ),
}


def find_hint(error: ToolglotError, profile: Profile, key: str) -> str:
    """Return what to do about an error; "" if nothing can be done, or its message says what.

    `key`: what to call the key that was sent.
    """
    match error:
        case AuthenticationFailed():
            return "" if error.status is None else f"check {key}"  # otherwise there was none, and it says so
        case PermissionDenied():
            return f"{key} does not allow it: use another"
        case ConnectFailed():
            return _find_server_hint(profile)
        case ProviderError(status=404 | 405 | 501) if not isinstance(error.body, dict | list):
            return _CHECK_URL  # nothing that an API says
        case NotFound():
            return _find_model_hint(profile)
        case _:
            hints = _LOCAL_HINTS if _is_local(profile) else _HINTS
            return hints.get(type(error), "")


def _is_local(profile: Profile) -> bool:
    return urlsplit(profile.base_url).hostname in _LOCAL_HOSTS


def _find_model_hint(profile: Profile) -> str:
    hint = f"toolglot models {profile.id} lists the models"
    row = PROFILES.get(profile.id)
    if row is None or row.base_url == profile.base_url:
        return hint
    return f"{_CHECK_URL} and the model: {hint}"  # a gateway may serve the model, but not at this path


def _find_server_hint(profile: Profile) -> str:
    if not _is_local(profile):
        return "check the network, the proxy settings and the base URL"
    # Not that of a vendor, but one in its place; and a kind of servers is not the name of one.
    server = profile.title if profile.auth == "optional" and profile.id != "compatible" else "a server"
    return f"is {server} running? Set the base URL if it runs elsewhere"
