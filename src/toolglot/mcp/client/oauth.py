"""Signing in to MCP servers: the SDK implements OAuth; this module stores the tokens and serves the redirect
page.

Tokens are stored by URL and client, not by server name: a project that reuses a known name with another URL
gets none of them.
"""

import asyncio
import hmac
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args
from urllib.parse import parse_qs, urlsplit

import msgspec

from toolglot.common.regular_files import read_regular_file
from toolglot.common.user_dirs import data_directory, write_private
from toolglot.errors import UsageError
from toolglot.mcp.client.oauth_gate import OAuthGate, Place
from toolglot.mcp.client.servers import McpOAuth, McpServer

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

__all__ = ["LoopbackPage", "StoredTokens", "create_sign_in", "token_file"]

Model = TypeVar("Model")
SignIn = Callable[[str], None]
"""Shows the user the URL at which to sign in."""
_CALLBACK_PATH = "/callback"
_MAX_REQUEST = 1 << 16


def token_file(server: McpServer) -> Path:
    """Return the file with the tokens for a server."""
    identity = f"{server.url}\n{server.oauth.client_id if server.oauth else ''}"
    return data_directory() / "mcp" / f"{sha256(identity.encode()).hexdigest()[:24]}.json"


class StoredTokens:
    """The SDK's token storage, in a file that only the user can read.

    The SDK does not store when a token expires and where to refresh it, and would send the user to the
    browser again. With `context`, the SDK's sign-in state, these are stored, too.
    """

    def __init__(
        self, file: Path, redirect_uri: str = "", oauth: McpOAuth | None = None, gate: OAuthGate | None = None
    ) -> None:
        self._file, self._redirect_uri, self._oauth, self._gate = file, redirect_uri, oauth, gate
        self.context: OAuthContext | None = None

    def _read(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(read_regular_file(self._file), type=dict[str, Any])
        except (OSError, msgspec.MsgspecError):  # a damaged file holds no tokens
            return {}

    def _write(self, **values: Any) -> None:
        def dump(model: Any) -> Any:
            return model.model_dump(mode="json", exclude_none=True)

        write_private(self._file, msgspec.json.encode({**self._read(), **values}, enc_hook=dump))

    def _load(self, key: str, model: type[Model]) -> Model | None:
        with suppress(ValueError):  # pydantic's: a damaged file holds nothing
            return cast(Any, model).model_validate(self._read().get(key))
        return None

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        tokens, context = self._load("tokens", OAuthToken), self.context
        if tokens is not None and context is not None:
            context.oauth_metadata = context.oauth_metadata or self._load("metadata", OAuthMetadata)
            context.protected_resource_metadata = context.protected_resource_metadata or self._load(
                "resource", ProtectedResourceMetadata
            )
            expires_at = self._read().get("expires_at")
            context.token_expiry_time = expires_at if isinstance(expires_at, int | float) else None
            if self._gate is not None and (place := self._read().get("place")) in get_args(Place):
                self._gate.place = place  # new tokens are requested before the server responds
        return tokens

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        context = self.context
        self._write(
            tokens=tokens,
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            metadata=context and context.oauth_metadata,
            resource=context and context.protected_resource_metadata,
            place=self._gate and self._gate.place,
        )

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        if self._oauth is not None and self._oauth.client_id:
            # RFC 6749, 2.3.1: every server must accept a secret sent this way; other ways are optional.
            method = "client_secret_basic" if self._oauth.client_secret else "none"
            return OAuthClientInformationFull.model_validate(
                {
                    "client_id": self._oauth.client_id,
                    "client_secret": self._oauth.client_secret or None,
                    "redirect_uris": [self._redirect_uri] if self._redirect_uri else None,
                    "token_endpoint_auth_method": method,
                }
            )
        return self._load("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        self._write(client=client_info)


class LoopbackPage:
    """The local page to which the browser is redirected with a code.

    Any page in the browser can send requests to it: those without the sign-in's own secret are not for us.
    """

    def __init__(self) -> None:
        self._state = ""
        self._result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self.address = ""

    async def open(self, port: int) -> None:
        """Listen on a local port, 0 for any. Raises UsageError."""
        try:
            self._server = await asyncio.start_server(self._answer, "127.0.0.1", port, limit=_MAX_REQUEST)
        except OSError as e:
            raise UsageError(f"cannot listen on local port {port} to sign in: {e.strerror}") from None
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_CALLBACK_PATH}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def expect(self, address: str) -> None:
        """Prepare for the answer to a sign-in at this URL."""
        self._state = parse_qs(urlsplit(address).query).get("state", [""])[0]

    async def wait(self) -> "AuthorizationCodeResult":
        """Wait for the browser."""
        result = await self._result
        self._result = asyncio.get_running_loop().create_future()  # more scopes may be requested later
        return result

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from mcp.shared.auth import AuthorizationCodeResult

        try:
            target = (await reader.readuntil(b"\n")).decode("latin-1").split(" ")[1]
            url = urlsplit(target)
            fields = {key: values[0] for key, values in parse_qs(url.query).items()}
            if url.path != _CALLBACK_PATH or not fields.keys() & {"code", "error"}:
                status, text = "404 Not Found", "Page not found."
            elif not self._state or not hmac.compare_digest(
                fields.get("state", "").encode(), self._state.encode()
            ):
                status = "400 Bad Request"
                text = "This page does not belong to a sign-in that toolglot has started."
            else:
                status, text = "200 OK", "You are signed in. You can close this page and return to toolglot."
                if "error" in fields:
                    text = f"Signing in failed: {fields.get('error_description') or fields['error']}"
                if not self._result.done():
                    result = AuthorizationCodeResult(
                        code=fields.get("code", ""), state=fields.get("state"), iss=fields.get("iss")
                    )
                    self._result.set_result(result)
            body = f"<!doctype html><meta charset=utf-8><title>toolglot</title><p>{escape(text)}".encode()
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: "
                f"{len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        except (OSError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # not a browser
        finally:
            writer.close()


async def create_sign_in(
    server: McpServer,
    sign_in: SignIn | None,
    page: LoopbackPage,
    gate: OAuthGate,
    on_waiting: Callable[[], None],
) -> "OAuthClientProvider":
    """Return an `httpx2.Auth` that adds tokens to a server's requests, and obtains them if `sign_in` can
    reach the user.

    `gate` must check each request that it makes. `on_waiting` is called before waiting for the user, which
    may take long.
    """
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    oauth = server.oauth or McpOAuth()
    if sign_in is not None:
        await page.open(oauth.redirect_port)
    redirect_uri = page.address or f"http://127.0.0.1{_CALLBACK_PATH}"

    async def redirect(address: str) -> None:
        assert sign_in is not None, "the gate refuses everything before"
        await gate.check_address(address)
        page.expect(address)
        on_waiting()
        await asyncio.to_thread(sign_in, address)

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "toolglot",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "scope": " ".join(oauth.scopes) or None,
        }
    )
    storage = StoredTokens(token_file(server), redirect_uri, oauth, gate)
    provider = OAuthClientProvider(
        server_url=server.url,
        client_metadata=metadata,
        storage=storage,
        redirect_handler=redirect,
        callback_handler=page.wait,
        client_metadata_url=oauth.client_metadata_url or None,
    )
    storage.context = provider.context
    return provider
