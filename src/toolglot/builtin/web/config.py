"""What the user has configured for the web tools."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.errors import UsageError

__all__ = ["NO_SEARCH_SERVICE", "Secret", "WebConfig", "resolve_secret"]

NO_SEARCH_SERVICE = (
    "no search service is configured: set BRAVE_API_KEY, TAVILY_API_KEY or "
    "builtin.searxng_url (in Python: WebConfig)"
)

if TYPE_CHECKING:
    Secret = str | Callable[[], str | None]
    """A key, or a function that gets it when it is needed."""
else:
    Secret = Any  # msgspec has no such union


class WebConfig(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """Everything has a usable default, except for a search service."""

    searxng_url: str = ""
    """Base URL of a SearXNG instance whose JSON format is enabled."""
    brave_key: Secret = ""
    """The key for Brave Search, or a function that returns it."""
    tavily_key: Secret = ""
    """The key for Tavily, or a function that returns it."""
    brave_url: str = "https://api.search.brave.com/res/v1/web/search"
    """Where Brave Search is asked."""
    tavily_url: str = "https://api.tavily.com/search"
    """Where Tavily is asked."""
    allow_private: Sequence[str] = ()
    """Hosts and networks that need not be public: localhost:8000, 10.0.0.0/8."""
    browser: str = ""
    """Path of Chrome or Chromium; "" finds it, "none" opens pages without a browser."""
    without_sandbox: bool = False
    """Run Chromium without its own sandbox, if the system does not support it."""
    timeout: Annotated[float, Meta(ge=0.1)] = 30.0
    """Seconds for a page, unless the call sets its own."""
    max_bytes: Annotated[int, Meta(ge=1000)] = 10_000_000
    """Of one page with everything that it loads."""
    max_memory: Annotated[int, Meta(ge=100_000_000)] = 2_000_000_000
    """Bytes of memory of the browser (Linux): the page that needs more is ended."""
    max_chars: Annotated[int, Meta(ge=200)] = 20_000
    """Of the text shown at once."""

    def __post_init__(self) -> None:
        check_values(self)
        for name in ("brave_key", "tavily_key"):
            if not isinstance(key := getattr(self, name), str) and not callable(key):
                raise UsageError(
                    f"{name} of WebConfig: expected a text or a function that returns one, got "
                    f"{type(key).__name__}"
                )

    @property
    def can_search(self) -> bool:
        """Whether there is a search service.

        A function that gets a key counts as one: it is not called before a search.
        """
        return bool(self.searxng_url or self.brave_key or self.tavily_key)

    def __repr__(self) -> str:
        """Without keys."""
        return f"WebConfig({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Without keys."""
        return [
            ("searxng_url", self.searxng_url),
            ("allow_private", self.allow_private),
            ("browser", self.browser),
        ]


def resolve_secret(secret: Secret) -> str:
    """Return the key itself; "" if there is none."""
    return secret if isinstance(secret, str) else secret() or ""
