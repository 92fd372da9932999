"""Misbehaving servers, once each; `python -m tests.attack` repeats them."""

import asyncio

import pytest
from tests.mcp.storm import KINDS, find_faults, open_servers


@pytest.mark.parametrize("transport", KINDS)
def test_a_misbehaving_server_hurts_only_the_call_itself(transport: str) -> None:
    with open_servers(transport) as servers:

        async def try_all() -> list[str]:
            return [
                fault
                for name, kind in KINDS[transport].items()
                for fault in await find_faults(servers, name, kind)
            ]

        assert asyncio.run(try_all()) == []


def test_there_are_enough_kinds() -> None:
    assert len(KINDS["stdio"]) >= 28
    assert len(KINDS["http"]) >= 20
