"""The same small task with real providers. It costs money: only where TOOLGLOT_LIVE_MODELS names models and their keys are set.

TOOLGLOT_LIVE_MODELS=anthropic:claude-sonnet-4-5,gemini:gemini-2.5-flash make test
"""

import os
from pathlib import Path

import pytest

from toolglot import Orchestrator, coding_tools

MODELS = [name for name in os.environ.get("TOOLGLOT_LIVE_MODELS", "").split(",") if name]
WHY = "asks a real provider: set TOOLGLOT_LIVE_MODELS to models, and their keys"


@pytest.mark.parametrize("model", MODELS or [pytest.param("", marks=pytest.mark.skip(reason=WHY), id="none")])
def test_a_file_is_found_read_and_changed(model: str, tmp_path: Path) -> None:
    (tmp_path / "greeting.txt").write_text("Helo world\n")
    agent = Orchestrator(model, tools=coding_tools(tmp_path))
    result = agent.run_sync(
        "A file in this folder greets the world with a typo. Find it, correct the typo in it, and say done."
    )
    assert result.stop == "end"
    assert (tmp_path / "greeting.txt").read_text() == "Hello world\n"
    assert {outcome.call.name for outcome in result.outcomes} <= {tool.name for tool in agent.registry}


@pytest.mark.skipif(len(MODELS) < 2, reason=WHY)
def test_one_conversation_goes_from_model_to_model(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the word is plum\n")
    agent = Orchestrator(MODELS[0], tools=coding_tools(tmp_path))
    assert "plum" in agent.run_sync("Read secret.txt and tell me the word.").text
    for model in MODELS[1:]:
        agent.switch(model)
        assert "plum" in agent.run_sync("Which word was it? Do not read the file again.").text
