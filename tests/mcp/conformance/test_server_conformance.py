"""MCP's conformance suite against our server: both generations of the protocol, at once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.mcp.conformance.runner import REVISIONS, run_conformance
from tests.mcp.conformance.server import Events, create_server

from toolglot.mcp import serve_http


@pytest.mark.conformance
async def test_all_scenarios_for_servers_pass(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for revision in REVISIONS:
        (tmp_path / revision).mkdir()
    async with serve_http(create_server(), event_store=Events(), retry_interval=50) as url:
        runs = [
            run_conformance("server", revision, tmp_path / revision, "--url", url) for revision in REVISIONS
        ]
        reports = await asyncio.gather(*runs)
    for report in reports:
        record_property("summary", str(report))
    assert [report.failures for report in reports] == [{}, {}]
