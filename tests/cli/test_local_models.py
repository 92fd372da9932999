"""A model on this machine: how much it can read decides which built-in tools it is offered."""

import pytest
from cli_kit import Outcome, run_cli

from toolglot.cli import local_models
from toolglot.cli.startup import Flags, prepare
from toolglot.engine.engine import Engine
from toolglot.tools.tool import Tool

MODEL = ("-m", "llama.cpp:small", "--base-url", "http://127.0.0.1:1/v1")
SMALL = ["edit", "glob", "grep", "read", "shell", "write"]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """The models whose servers were asked, and what requests will ask Ollama for."""
    asked: list[tuple[str, int | None]] = []

    async def fetch(engine: Engine, num_ctx: int | None = None) -> int | None:
        asked.append((engine.name, num_ctx))
        return {"small": 4096, "large": 16_000}.get(engine.model)

    monkeypatch.setattr(local_models, "fetch_context_size", fetch)
    return asked


def offered(model: str, builtin: bool | None = None) -> list[str]:
    with prepare(Flags(model=model, builtin=builtin)) as cli_setup:
        return sorted(tool.name for tool in cli_setup.tools if isinstance(tool, Tool))


def test_a_small_context_gets_a_few_tools() -> None:
    assert offered("llama.cpp:small") == offered("ollama:small") == SMALL
    assert offered("llama.cpp:small", builtin=False) == []
    everything = offered("llama.cpp:small", builtin=True)
    assert len(everything) > len(SMALL)
    assert offered("llama.cpp:large") == offered("llama.cpp:unknown") == everything


def test_it_is_said_in_one_line() -> None:
    outcome: Outcome = run_cli("run", *MODEL, "hi")
    note, error = outcome.err.splitlines()
    assert note.startswith(
        "toolglot: llama.cpp:small has a context of 4,096 tokens, so only a few built-in tools are offered ("
    )
    assert error.endswith("is llama.cpp server running? Set the base URL if it runs elsewhere")
    assert "has a context" not in run_cli("run", *MODEL, "--builtin", "hi").err


def test_a_conversation_is_shortened_in_time() -> None:
    with prepare(Flags(model="llama.cpp:small")) as cli_setup:
        agent = cli_setup.create_agent(approve=None)
        assert agent.view().engine.profile.limits.context == 4096


def test_what_requests_ask_for_counts(asked: list[tuple[str, int | None]]) -> None:
    with prepare(Flags(model="ollama:qwen3", option=("ollama-chat.options.num_ctx=8192",))):
        pass
    assert asked == [("ollama:qwen3", 8192)]


@pytest.mark.parametrize("model", ["simulator:ollama", "openai-chat:gpt-4o"])
def test_only_local_servers_are_asked(model: str, asked: list[tuple[str, int | None]]) -> None:
    with prepare(Flags(model=model)):
        assert asked == []
