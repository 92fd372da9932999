"""What the user has decided about the web: what may be opened beside its public part, who searches, and how much is taken."""

from collections.abc import Callable

import msgspec

from toolglot.errors import UsageError

__all__ = ["Secret", "WebConfig", "resolve_secret"]

Secret = str | Callable[[], str | None]
"""A key, or a function that gets it when it is needed."""


class WebConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything has a good value; only searching needs to be told where."""

    searxng_url: str = ""
    """The base address of a SearXNG whose JSON format is on."""
    brave_key: Secret = ""
    tavily_key: Secret = ""
    brave_url: str = "https://api.search.brave.com/res/v1/web/search"
    tavily_url: str = "https://api.tavily.com/search"
    allow_private: tuple[str, ...] = ()
    """Hosts and networks that need not be public: localhost:8000, 10.0.0.0/8."""
    browser: str = ""
    """The path of Chrome or Chromium; "" finds it, "none" opens pages without one."""
    without_sandbox: bool = False
    """Chromium without its own sandbox, where the system does not let it have one."""
    timeout: float = 30.0
    """Seconds for a page, unless the call says otherwise."""
    max_bytes: int = 10_000_000
    """Of one page with all that it loads."""
    max_chars: int = 20_000
    """Of one part that is shown."""

    def __post_init__(self) -> None:
        for name, least in (("timeout", 0.1), ("max_bytes", 1000), ("max_chars", 200)):
            if not getattr(self, name) >= least:
                raise UsageError(f"web: {name} is {getattr(self, name)!r}; it is at least {least:g}")

    def __repr__(self) -> str:
        """Without keys."""
        return f"WebConfig(searxng_url={self.searxng_url!r}, allow_private={self.allow_private!r}, browser={self.browser!r})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Without keys."""
        return [("searxng_url", self.searxng_url), ("allow_private", self.allow_private), ("browser", self.browser)]


def resolve_secret(secret: Secret) -> str:
    """The key itself; "" where there is none."""
    return secret if isinstance(secret, str) else secret() or ""
