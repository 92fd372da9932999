"""Several things on the web in one call: the base tool `web`, and how Codex's models see it.

No page is fetched here.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.pages import Page
from toolglot.builtin.web.tools import MAX_STEPS, web_tools
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import find_facade
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.messages import ToolCall, ToolResult

LINKS = (
    "See [the long one](https://b.test/), ![a picture](https://p.test/x.png) and [apples](https://a.test/)."
)
LONG = "\n".join(f"line {number} of many" for number in range(1, 2001))


class Net:
    """The tools over pages that were opened before: w1 is short, w2 is long, w3 links to both."""

    def __init__(self) -> None:
        self.web = WebClient(WebConfig(browser="none"))
        for name, text in (("a", "apples\npears"), ("b", LONG), ("c", LINKS)):
            url = f"https://{name}.test/"
            self.web.pages.add(Page(url=url, requested=url, method="http", text=text, title=name.upper()))
        tools = web_tools(self.web)
        self.executor = ToolExecutor(ToolRegistry(tools), ToolConfig(ask=(), max_repeats=0))
        self.facade = BoundFacade(find_facade("codex"), "gpt-5.5", [tool.name for tool in tools])

    def base(self, **arguments: Any) -> ToolResult:
        return asyncio.run(self.executor.run(ToolCall("c1", "web", arguments))).result

    def native(self, **arguments: Any) -> ToolResult:
        return asyncio.run(
            self.executor.run(self.facade.interpret(ToolCall("c1", "run", arguments, namespace="web")))
        ).result


@pytest.fixture
def net() -> Iterator[Net]:
    browser = Net()
    yield browser
    browser.web.close()


class TestTheBaseTool:
    def test_parts_are_in_the_order_of_the_request(self, net: Net) -> None:
        result = net.base(
            find=[{"ref_id": "w1", "pattern": "pears"}],
            open=[{"ref_id": "w2", "lineno": 7}, {"ref_id": "w1"}],
        )
        assert not result.is_error
        assert [part["kind"] for part in result.data["parts"]] == ["open", "open", "find"]
        assert [part["data"]["ref"] for part in result.data["parts"]] == ["w2", "w1", "w1"]
        assert result.data["parts"][0]["data"]["start_line"] == 7
        assert result.text == "\n\n---\n\n".join(part["text"] for part in result.data["parts"])

    def test_one_failure_does_not_affect_the_other_parts(self, net: Net) -> None:
        result = net.base(
            search_query=[{"q": "x"}], open=[{"ref_id": "w9"}], find=[{"ref_id": "w1", "pattern": "apples"}]
        )
        assert not result.is_error
        assert [part["is_error"] for part in result.data["parts"]] == [True, True, False]
        assert "there is no ref 'w9'" in result.text
        assert "1: apples" in result.text

    def test_it_fails_if_every_part_fails(self, net: Net) -> None:
        result = net.base(open=[{"ref_id": "w8"}, {"ref_id": "w9"}])
        assert result.is_error
        assert "'w8'" in result.text
        assert "'w9'" in result.text

    @pytest.mark.parametrize("count", [0, MAX_STEPS + 1])
    def test_the_number_of_parts_has_bounds(self, net: Net, count: int) -> None:
        result = net.base(open=[{"ref_id": "w1"}] * count)
        assert (result.error_kind, f"1 to {MAX_STEPS}" in result.text) == ("validation", True)


class TestAsCodexShowsIt:
    def test_a_long_page_explains_how_to_continue(self, net: Net) -> None:
        result = net.native(open=[{"ref_id": "w2"}])
        assert (result.name, result.is_error) == ("run", False)
        match = re.search(r"\(There is more: open ref_id w2 with lineno (\d+)\.\)$", result.text)
        assert match is not None
        next_line = int(match[1])
        assert f"line {next_line} of many" in net.native(open=[{"ref_id": "w2", "lineno": next_line}]).text

    def test_several_things_are_one_result(self, net: Net) -> None:
        result = net.native(
            open=[{"ref_id": "w2"}, {"ref_id": "w1", "lineno": 2}], find=[{"ref_id": "w1", "pattern": "app"}]
        )
        page, other, matches = result.text.split("\n\n[w1] A\n")
        assert "(There is more: open ref_id w2 with lineno" in page
        assert "web_open" not in result.text
        assert other.endswith("pears")
        assert "1 of 2 lines" in matches

    def test_unsupported_parts_are_reported_and_the_others_run(self, net: Net) -> None:
        result = net.native(find=[{"ref_id": "w1", "pattern": "app"}], finance=[{"ticker": "X"}])
        assert not result.is_error
        assert result.text.endswith("[finance is not supported]")

    def test_a_click_opens_what_a_link_leads_to(self, net: Net) -> None:
        result = net.native(click=[{"ref_id": "w3", "id": 2}])
        assert "apples" in result.text
        both = net.native(click=[{"ref_id": "w3", "id": 2}], find=[{"ref_id": "w1", "pattern": "pears"}])
        assert "apples" in both.text
        assert "has 2 links" in net.native(click=[{"ref_id": "w3", "id": 3}]).text
