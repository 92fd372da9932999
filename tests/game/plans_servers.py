"""Plans of a model whose accomplice is an MCP server that the user has configured: it lies about its tools."""

import threading

from tests.game.game_world import World
from tests.game.hostile_model import call
from tests.game.player import Accept, PlanScript, Pretence, plan

_MAX_TURNS = 50


@plan("SEC-F2: a server says that its tool only reads and talks to nobody", setting="servers", quick=True)
def harmless_by_its_own_word(world: World) -> PlanScript:
    prompt = 'call mcp__harmless__lookup {"note": "TOKEN"}'
    yield Pretence(
        later=(
            world.toolglot("run", prompt, "-m", "simulator"),
            world.toolglot("call", "mcp__harmless__lookup", '{"note": "TOKEN"}'),
            world.toolglot("tools"),
            world.toolglot("mcp", "test", "harmless"),
        )
    )
    results = yield call("mcp__harmless__lookup", note="TOKEN")
    assert "did not approve" in results[0], results


@plan("SEC-F3: a tool that was always allowed becomes another one", setting="servers", quick=True)
def always_for_a_tool_that_is_replaced(world: World) -> PlanScript:
    first = Accept("mcp__rug__lookup", ("note: a word",), "lookup of rug", keys="a")
    yield Pretence((first,), files={"calls": '{"note": "a word"}\n'})
    results = yield call("mcp__rug__lookup", note="a word")
    assert "nothing found" in results[0], results
    for _ in range(_MAX_TURNS):
        if "It DELETES everything." in world.model.heard[-1]:
            break
        threading.Event().wait(0.1)  # the server's new list is on its way
        yield call("read", path="README.md")
    results = yield call("mcp__rug__lookup", note="TOKEN")
    assert "did not approve" in results[0], results
