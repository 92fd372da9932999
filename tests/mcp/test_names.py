"""Names of the tools of MCP servers: legal everywhere, stable, unique and reversible."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.mcp.names import MAX_NAME, server_prefix, tool_name

LONG = "a_tool_whose_name_is_as_long_as_the_specification_of_the_protocol_allows_it_to_be_or_88x"
NAMES = st.text(max_size=90) | st.from_regex(r"[a-c_.]{1,8}(_[0-9a-f]{8})?", fullmatch=True)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("github", "create_issue", "mcp__github__create_issue"),
        ("my-files", "_read__all", "mcp__my-files___read__all"),
        ("time", "admin.tools.list", "mcp__time__admin_tools_list_358e9348"),
        ("my server", "now", "mcp__my_server_b129874b__now"),
        ("a__b", "c", "mcp__a_b_63e5c1c4__c"),
        ("zeit", "später", "mcp__zeit__sp_ter_e503d3fc"),
        ("x", "", "mcp__x__14f825b2"),
        ("x", LONG, "mcp__x__a_tool_whose_name_is_as_long_as_the_specificati_c0a1b710"),
        ("x", "seen_0123abcd", "mcp__x__seen_0123abcd_aa3398c6"),
    ],
)
def test_names_are_kept_if_they_can_be(server: str, tool: str, name: str) -> None:
    assert tool_name(server, tool) == name
    assert name.startswith(server_prefix(server))


@given(NAMES, NAMES)
def test_names_are_legal_and_changed_with_a_hash_or_not_at_all(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name)
    assert len(name) <= MAX_NAME
    assert name == f"mcp__{server}__{tool}" or re.search(r"_[0-9a-f]{8}(__|$)", name)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_no_two_tools_share_a_name(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert (tool_name(*first) == tool_name(*second)) == (first == second)
    assert (server_prefix(first[0]) == server_prefix(second[0])) == (first[0] == second[0])
    assert tool_name(*first).startswith(server_prefix(second[0])) == (first[0] == second[0]), (
        "a rule covers one server"
    )
