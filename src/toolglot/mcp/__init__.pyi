# Generated from `_HOMES` by `make docs`. `X as X` marks a name that is exported.
from toolglot.mcp.client.client import McpServers as McpServers
from toolglot.mcp.client.listing import McpPrompt as McpPrompt
from toolglot.mcp.client.listing import McpPromptArgument as McpPromptArgument
from toolglot.mcp.client.listing import McpResource as McpResource
from toolglot.mcp.client.listing import McpServerStatus as McpServerStatus
from toolglot.mcp.client.loading import load_servers as load_servers
from toolglot.mcp.client.servers import McpOAuth as McpOAuth
from toolglot.mcp.client.servers import McpServer as McpServer
from toolglot.mcp.serve.http import http_app as http_app
from toolglot.mcp.serve.http import serve_http as serve_http
from toolglot.mcp.serve.server import McpToolServer as McpToolServer
from toolglot.mcp.serve.server import current_request as current_request
from toolglot.mcp.serve.stdio import serve_stdio as serve_stdio

__all__: list[str]
