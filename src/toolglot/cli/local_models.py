"""First contact with a model on this machine: how much it can read, and which tools are worth their tokens
then.
"""

from collections.abc import Iterable
from typing import Any

from toolglot.config.setup import Setup
from toolglot.engine.context_size import fetch_context_size
from toolglot.errors import UsageError
from toolglot.loop.background_loop import run_sync
from toolglot.tools.tool import Tool
from toolglot.wire.json_values import as_dict
from toolglot.wire.spec import OLLAMA_CHAT

__all__ = ["SMALL_CONTEXT", "ask_context_size", "fit_tools"]

SMALL_CONTEXT = 16_000
"""Tokens. The definitions of all built-in tools take about 6,000 of them."""
_SMALL_SET = frozenset({"read", "write", "edit", "glob", "grep", "shell"})


def ask_context_size(setup: Setup, model: str, base_url: str | None) -> int | None:
    """Return the tokens of a model's context as its local server gives it; None: unknown, or another
    provider.
    """
    if model.partition(":")[0] not in ("llama.cpp", "ollama"):
        return None
    overrides: dict[str, Any] = {"base_url": base_url} if base_url else {}
    try:
        engine = setup.engine(model, **overrides)
    except UsageError:
        return None  # it is an error when the agent is made
    extras = setup.generation_options(model).extras.get(OLLAMA_CHAT, {})
    num_ctx = as_dict(extras.get("options")).get("num_ctx")
    return run_sync(fetch_context_size(engine, num_ctx if isinstance(num_ctx, int) else None))


def fit_tools(tools: Iterable[Tool], model: str, size: int | None) -> tuple[list[Tool], str]:
    """Return the built-in tools that fit a context, and what to tell the user if these are not all.

    None: any size.
    """
    if size is None or size >= SMALL_CONTEXT:
        return list(tools), ""
    chosen = [tool for tool in tools if tool.name in _SMALL_SET]
    names = ", ".join(tool.name for tool in chosen)
    note = (
        f"{model} has a context of {size:,} tokens, so only a few built-in tools are offered ({names}): "
        "give it more (see docs/guides/local-models.md), or use --builtin for all of them"
    )
    return chosen, note
