"""A call of an MCP tool is one trace, from the run to the server and the tool."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

SERVER = """
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("echo")

@server.tool()
async def look(ctx: Context) -> str:
    "Return the trace context."
    return str((ctx.request_context.meta or {}).get("traceparent"))

server.run()
"""
SETUP = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
CLIENT = """
from toolglot import Agent
from toolglot.mcp.client.client import McpServers
from toolglot.mcp.client.servers import McpServer

with McpServers({"echo": McpServer(command=sys.executable, args=(sys.argv[1],), trust=True)}) as servers:
    servers.wait_ready()
    result = Agent("simulator", tools=[*servers.tools]).run_sync("call mcp__echo__look {}")
spans = [
    (span.name, *(id and format(id.span_id, "016x") for id in (span.context, span.parent)), dict(span.attributes))
    for span in exporter.get_finished_spans()
]
print(json.dumps([result.outcomes[0].result.text, spans]))
"""
OWN_SERVER = """
from mcp import Client
from toolglot.mcp import McpToolServer, serve_http

def look() -> str:
    with trace.get_tracer("tool").start_as_current_span("inside"):
        return ""

async def main():
    async with serve_http(McpToolServer([look])) as url:
        for mode in ("legacy", "auto"):
            async with Client(url, mode=mode) as client:
                await client.call_tool("look", {})

asyncio.run(main())
names = {span.context.span_id: span.name for span in exporter.get_finished_spans()}
pairs = [(span.name, names.get(span.parent.span_id)) for span in exporter.get_finished_spans() if span.parent]
print(json.dumps(pairs))
"""


def test_our_server_continues_the_trace_of_its_client() -> None:
    done = subprocess.run([sys.executable, "-c", SETUP + OWN_SERVER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout)
    for pair in (["inside", "tools/call look"], ["tools/call look", "MCP send tools/call look"]):
        assert pairs.count(pair) == 2  # both generations of the protocol


def test_a_call_of_an_mcp_tool_is_one_trace(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", SETUP + CLIENT, str(server)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    traceparent, spans = json.loads(done.stdout)
    by_name = {name: (id, parent, attributes) for name, id, parent, attributes in spans}
    run, call, sent = (
        by_name[name] for name in ("invoke_agent", "execute_tool mcp__echo__look", "MCP send tools/call look")
    )
    assert (call[1], sent[1]) == (run[0], call[0])
    assert traceparent.split("-")[2] == sent[0]
    assert (call[2]["mcp.method.name"], call[2]["toolglot.mcp.server"]) == ("tools/call", "echo")
