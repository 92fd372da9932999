import tomllib

import pytest

from toolglot.config.toml_edit import add_server, remove_server
from toolglot.errors import UsageError

TEXT = """# mine
model = "simulator"  # cheap

[mcp.servers.old] # a comment
command = "x"
env.A = "[mcp.servers.no]"

[mcp.servers.old.oauth]
scopes = ["a"]

[chat]
thinking = "shown"
"""


def test_a_server_is_added_at_the_end() -> None:
    fields = {
        "command": "npx",
        "args": ["-y", 'a "b"'],
        "env": {"TOKEN": "${T}", "a.b": "é\n"},
        "sandbox": True,
    }
    changed = add_server(TEXT, "new one", fields)
    assert changed.startswith(TEXT)
    assert tomllib.loads(changed)["mcp"]["servers"]["new one"] == fields
    assert '[mcp.servers."new one"]' in changed
    assert add_server("", "s", {"url": "https://x"}) == '[mcp.servers.s]\nurl = "https://x"\n'


def test_a_server_is_removed_with_its_tables_and_nothing_else() -> None:
    changed = remove_server(TEXT, "old")
    assert changed == '# mine\nmodel = "simulator"  # cheap\n\n[chat]\nthinking = "shown"\n'
    assert remove_server(add_server(TEXT, "new", {"url": "https://x"}), "new").rstrip() == TEXT.rstrip()


@pytest.mark.parametrize("text", [
    '[mcp.servers]\nold = {command = "x"}\n',
    '[mcp]\nservers.old.command = "x"\n',
    'mcp = {servers = {old = {command = "x"}}}\n',
])  # fmt: skip
def test_other_ways_to_write_a_server_are_left_to_the_user(text: str) -> None:
    with pytest.raises(UsageError, match="cannot be edited automatically"):
        remove_server(text, "old")


def test_a_table_inside_a_string_is_not_a_table() -> None:
    text = 'system = """\n[mcp.servers.old]\nx\n"""\n[mcp.servers.old]\ncommand = "x"\n'
    with pytest.raises(UsageError, match="cannot be edited automatically"):
        remove_server(text, "old")


def test_what_cannot_be_done() -> None:
    with pytest.raises(UsageError, match="an MCP server 'old' already exists"):
        add_server(TEXT, "old", {"url": "https://x"})
    with pytest.raises(UsageError, match="it has no MCP server 'none'"):
        remove_server(TEXT, "none")
    with pytest.raises(UsageError, match="not TOML"):
        add_server("[", "x", {})
    with pytest.raises(UsageError, match="cannot be edited automatically"):
        add_server("mcp = {}\n", "x", {"url": "https://x"})
    with pytest.raises(UsageError, match="mcp is not a table"):
        add_server("mcp = 1\n", "x", {"url": "https://x"})
    with pytest.raises(UsageError, match="servers is not a table"):
        remove_server("[mcp]\nservers = []\n", "x")


def test_comments_and_blank_lines_of_others_stay() -> None:
    before = "# mine\n\n\n\nmodel = 'simulator'\n\n"
    after = "# about chat\n\n# and more\n[chat]\nthinking = 'shown'\n\n\n\n# the end\n"
    section = "[mcp.servers.a] # a\n# inside\ncommand = 'x'\n\n"
    assert remove_server(before + section + after, "a") == before + after
    assert remove_server(before + after + section, "a") == (before + after)
    assert remove_server(section, "a") == ""


def test_lines_end_as_they_did() -> None:
    text = '# mine\r\nmodel = "simulator"\r\n'
    changed = add_server(text, "a", {"command": "x\x7f"})
    assert changed == text + '\r\n[mcp.servers.a]\r\ncommand = "x\\u007f"\r\n'
    assert remove_server(changed, "a") == text
