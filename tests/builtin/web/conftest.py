"""One site and one browser for all tests of the web tools."""

from collections.abc import Iterator

import pytest
from web_site import PAGES, Caller, Names, Site, serve

from toolglot.builtin.web.browser import BrowserUnavailable, find_browser
from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig

MAX_BYTES = 400_000


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A site with good and bad pages."""
    with serve(PAGES) as site:
        yield site


@pytest.fixture(scope="session")
def names(site: Site) -> Names:
    names = Names()
    names.port = site.port
    return names


@pytest.fixture(autouse=True)
def _clear_traces(site: Site, names: Names) -> None:
    site.requests.clear()
    names.answers.clear()
    names.reached.clear()


def _make_client(site: Site, names: Names, browser: str) -> WebClient:
    config = WebConfig(
        allow_private=(f"127.0.0.1:{site.port}",), browser=browser, max_bytes=MAX_BYTES, max_chars=4000
    )
    return WebClient(config, resolve=names.resolve, connect=names.connect)


@pytest.fixture(scope="session")
def http_web(site: Site, names: Names) -> Iterator[Caller]:
    """The tools without a browser."""
    web = _make_client(site, names, "none")
    yield Caller(web)
    web.close()


@pytest.fixture(scope="session")
def chromium(site: Site, names: Names) -> Iterator[Caller]:
    """The tools with a real browser; skips without one."""
    pytest.importorskip("playwright", reason="needs playwright, which is not installed")
    try:
        find_browser()
    except BrowserUnavailable as e:
        pytest.skip(f"needs a browser: {e}")
    web = _make_client(site, names, "")
    yield Caller(web)
    web.close()


@pytest.fixture(params=["chromium", "http_web"])
def either(request: pytest.FixtureRequest) -> Caller:
    """The tools with a browser and without one."""
    return request.getfixturevalue(request.param)
