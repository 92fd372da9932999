"""What is known of an MCP server before it is started."""

from typing import Any

import msgspec
import pytest

from toolglot.errors import UsageError
from toolglot.mcp.client.servers import McpOAuth, McpServer


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "a command or a url, and neither is set"),
        ({"command": "x", "url": "http://localhost"}, "both are set"),
        ({"url": "localhost:80/mcp"}, "must begin with http:// or https://"),
        ({"command": "x", "timeout": 0}, "timeout of McpServer"),
        ({"command": "x", "args": "y"}, "args of McpServer"),
    ],
)
def test_wrong_servers_are_refused_in_one_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        McpServer(**fields)
    assert "\n" not in str(caught.value)


def test_a_server_is_plain_data() -> None:
    server = McpServer(
        url="https://x/mcp", headers={"Authorization": "Bearer t"}, oauth=McpOAuth(client_secret="s")
    )
    assert msgspec.json.decode(msgspec.json.encode(server), type=McpServer) == server
    assert server.secrets == ("Bearer t", "s")
