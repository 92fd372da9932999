"""The published schemas of the APIs: llm-comply checks requests, replies, streams and errors of a simulator."""

# pyright: reportMissingTypeStubs=false

import asyncio
from pathlib import Path

import pytest
from llm_comply import __file__ as package_file
from llm_comply.cli import FORMATS
from llm_comply.config import ComplianceConfig
from llm_comply.runner import TestRunner as Runner  # pytest collects classes that are called Test…
from llm_comply.schema import SpecLoader
from llm_comply.tests import get_tests

from toolglot.simulator.server import serve

SPECS = {
    "open-responses": "openresponses.json",
    "openai-chat": "openai_chat.json",
    "anthropic": "anthropic.json",
}
RUNS = [
    ("open-responses", "gpt-5.1"),
    ("open-responses", "gpt-4o"),
    ("openai-chat", "gpt-5.1"),
    ("openai-chat", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("google-genai", "gemini-3-pro-preview"),
]


@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver is deprecated:DeprecationWarning")
async def test_every_check_of_llm_comply_passes() -> None:
    # an API that nothing here speaks
    assert {format for format, _ in RUNS} == {*FORMATS} - {"google-interactions"}
    folder = Path(package_file).parent / "specs"
    problems: list[str] = []
    async with serve() as url:
        for format, model in RUNS:
            config = ComplianceConfig(
                f"{url}/v1", "k", model, extra_headers={"anthropic-version": "2023-06-01"}
            )
            schemas = SpecLoader(str(folder / SPECS[format]) if format in SPECS else None)
            suite = await asyncio.to_thread(Runner(config, get_tests(format), schemas).run_all)
            for result in suite.results:
                is_unrelated = result.status.value == "skipped" and "reasoning requires" in result.errors[0]
                problems += [
                    f"{model} {result.id}: {text}"
                    for text in (*result.errors, *result.warnings)
                    if not is_unrelated
                ]
    assert problems == []
