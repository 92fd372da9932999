"""Our MCP client before the official conformance suite: `McpServers` with an agent that calls the tools, for
every scenario.
"""

import asyncio
import sys
import threading
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from tests.mcp.conformance.runner import REVISIONS, run_conformance

from toolglot import Agent
from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.mcp.client.client import McpServers
from toolglot.mcp.client.oauth import StoredTokens, token_file
from toolglot.mcp.client.servers import McpOAuth, McpServer
from toolglot.schema.arguments import make_example
from toolglot.values.approvals import Allow, ApprovalRequest

pytestmark = pytest.mark.conformance
CLIENT_METADATA = "https://conformance-test.local/client-metadata.json"  # the suite knows this address
# Scenarios that are not scored, because they are extensions, and that we do not pass: scenario -> why.
NOT_SUPPORTED = {
    "auth/enterprise-managed-authorization": "the exchange with a company's identity provider is left to its "
    "own programs",
    "auth/dpop": "the SDK does not bind tokens to keys",
    "auth/dpop-nonce": "the SDK does not bind tokens to keys",
    "auth/wif-jwt-bearer": "the SDK sends the token of a workload as the client's proof, not as a grant",
}


def browse(server: str, address: str) -> None:
    """Do what the user's browser does: open the address and follow its redirect, which leads back to the
    client.
    """
    threading.Thread(target=lambda: urllib.request.urlopen(address, timeout=10).close(), daemon=True).start()


def fill_form(request: ApprovalRequest) -> Allow:
    """Accept, with the defaults of the form where there are any."""
    if request.form is None:
        return Allow()
    properties: dict[str, Any] = request.form.get("properties", {})
    return Allow(
        arguments={name: schema.get("default", make_example(schema)) for name, schema in properties.items()}
    )


def client_credentials(
    scenario: str, context: dict[str, Any], name: str, server: McpServer
) -> OAuthClientProvider:
    """Sign in without a user, with the SDK's own providers, as `McpServers(authenticate=…)` allows."""
    storage, id = StoredTokens(token_file(server)), context["client_id"]
    if scenario.endswith("basic"):
        return ClientCredentialsOAuthProvider(server.url, storage, id, context["client_secret"])
    algorithm, key = context["signing_algorithm"], context["private_key_pem"]
    claims = SignedJWTParameters(issuer=id, subject=id, signing_algorithm=algorithm, signing_key=key)
    return PrivateKeyJWTOAuthProvider(server.url, storage, id, claims.create_assertion_provider())


async def play(scenario: str, url: str, context: dict[str, Any]) -> None:
    """Connect as the settings of a user would have it, and let a model call what the scenario names, or every
    tool.
    """
    oauth = McpOAuth(
        client_id=context.get("client_id", ""),
        client_secret=context.get("client_secret", ""),
        client_metadata_url=CLIENT_METADATA,
    )
    authenticate = (
        partial(client_credentials, scenario, context) if "client-credentials" in scenario else None
    )
    async with McpServers(
        {"suite": McpServer(url=url, oauth=oauth)}, sign_in=browse, authenticate=authenticate
    ) as servers:
        schemas = {tool.definition.name: tool.definition.parameters for tool in servers.tools}
        calls = [(f"mcp__suite__{call['name']}", call["arguments"]) for call in context.get("toolCalls", [])]
        if scenario == "json-schema-2020-12-preservation":
            calls = [
                ("mcp__suite__json_schema_echo", {"schema": schemas["mcp__suite__json_schema_2020_12_tool"]})
            ]
        for name, arguments in calls or [(name, make_example(schema)) for name, schema in schemas.items()]:
            agent = Agent("simulator:openai-chat", tools=servers.tools, approve=fill_form)
            await agent.run(f"call {name} {dumps_text(arguments)}")


async def serve_relays(path: str) -> asyncio.Server:
    """Play the scenario of each program that the suite starts."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        problem = ""
        try:
            task = loads_object(await reader.readline())
            await play(task["scenario"], task["url"], task["context"])
        except Exception as e:
            problem = repr(e)
        writer.write(problem.encode())
        writer.close()

    return await asyncio.start_unix_server(answer, path)


# The suite does not tell clients which authorization server their credentials are for.
@pytest.mark.filterwarnings("ignore:Omitting `issuer` is deprecated")
async def test_client_passes_every_required_scenario(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path = str(tmp_path / "relay")
    relay = f"{sys.executable} -I -S {Path(__file__).with_name('relay.py')} {path}"
    folders = [tmp_path / revision for revision in REVISIONS]
    for folder in folders:
        folder.mkdir()
    async with await serve_relays(path):
        pairs = zip(REVISIONS, folders, strict=True)
        reports = await asyncio.gather(
            *(run_conformance("client", *pair, "--command", relay) for pair in pairs)
        )
    for report in reports:
        record_property("summary", str(report))
    assert [report.failures for report in reports] == [{}, {}]
    failed = [
        {name for name, outcome in report.not_scored.items() if not outcome.is_good} for report in reports
    ]
    assert failed == [NOT_SUPPORTED.keys(), NOT_SUPPORTED.keys()]
