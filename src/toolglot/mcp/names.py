"""Names of MCP servers' tools, as models and rules see them: `mcp__SERVER__TOOL`.

Pure. MCP allows 128 characters and dots; providers allow 64 characters from [A-Za-z0-9_-]. A tool's name
depends only on its server and its name there, never on other servers or on which connected first. A part that
had to be changed or shortened ends in a hash of the original; a part that only looks like that gets a hash
too, so that no two tools share a name. The server part never contains `__`, so that the rule `mcp__github__*`
covers exactly one server's tools.
"""

import re
from hashlib import sha256

__all__ = ["MAX_NAME", "PREFIX", "server_prefix", "tool_name", "typed_name"]

MAX_NAME = 64
PREFIX, _SEPARATOR = "mcp__", "__"
_MAX_SERVER = 24
_HASH_LENGTH = 8
_HASHED = re.compile(rf"(?:\A|_)[0-9a-f]{{{_HASH_LENGTH}}}\Z")
_SERVER = re.compile(r"_?[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*\Z")
_TOOL = re.compile(r"[A-Za-z0-9_-]+\Z")


def server_prefix(server: str) -> str:
    """Return the prefix of the names of a server's tools: `mcp__github__`."""
    return f"{PREFIX}{_shorten(server, _SERVER, _MAX_SERVER, server)}{_SEPARATOR}"


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool."""
    prefix = server_prefix(server)
    return prefix + _shorten(tool, _TOOL, MAX_NAME - len(prefix), f"{server}\0{tool}")


def typed_name(server: str) -> str:
    """Return a server's name as one word that can be typed before a colon: `GitHub-MCP` for "GitHub MCP"."""
    return re.sub(r"[\s:@]+", "-", server).strip("-")


def _shorten(text: str, legal: re.Pattern[str], limit: int, identity: str) -> str:
    if legal.match(text) and len(text) <= limit and not _HASHED.search(text):
        return text
    digest = sha256(identity.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    words = re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_")
    return "_".join(filter(None, (words[: limit - _HASH_LENGTH - 1].rstrip("_"), digest)))
