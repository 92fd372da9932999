"""The recipes of CONTRIBUTING, tried: a new vendor is one row, a new fact about a model is one line, and
nothing else.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

import toolglot
from toolglot.cli.main import app
from toolglot.common.jsontext import dumps
from toolglot.engine.factory import create_engine
from toolglot.facades.catalog import facade_id_for_provider
from toolglot.loop.agent.agent import Agent
from toolglot.providers import catalog
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.model_facts import FACTS, Fact
from toolglot.providers.profile import Profile, ProviderLimits
from toolglot.simulator.core import Simulator
from toolglot.tools.tool import tool
from toolglot.values.messages import user
from toolglot.values.request import Options, Request
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import SPECS


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    resolve_profile.cache_clear()
    yield
    resolve_profile.cache_clear()


MINIMAL = Profile(
    id="acme",
    title="Acme",
    wire="openai-chat",
    base_url="https://api.acme.example/v1",
    path="/chat/completions",
    key_env=("ACME_API_KEY",),
    limits=ProviderLimits(tools=3, as_of="2026-11-15", source="Acme's API reference"),
)
BASES = [PROFILES[spec.default_profile] for spec in SPECS.values()]
ROWS = [
    MINIMAL,
    *(replace(base, id="acme", title="Acme", base_url="https://api.acme.example") for base in BASES),
]


@pytest.mark.parametrize("row", ROWS, ids=["minimal", *SPECS])
def test_a_vendor_is_one_row(
    row: Profile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PROFILES, "acme", row)
    for name in row.key_env:
        monkeypatch.setenv(name, "secret")
    engine = create_engine("acme:some-model")
    assert engine.profile == resolve_profile("acme", "some-model")
    assert engine.profile.base_url == row.base_url

    agent = Agent("simulator:acme/some-model", tools=[double])
    for prompt in ('call double {"x": 2} call double {"x": 3}', 'call double {"x": 4}'):
        assert not any(outcome.result.is_error for outcome in agent.run_sync(prompt).outcomes)
    assert agent.run_sync("say Done.").text == "Done."

    assert facade_id_for_provider("acme")
    app(["models", "acme:some-model"], standalone_mode=False)
    assert "Acme · acme:some-model" in capsys.readouterr().out


def test_encoders_and_the_loop_name_no_vendor() -> None:
    """A row is all that they see: what differs between vendors is a field of the profile."""
    vendors = PROFILES.keys() - SPECS.keys() - {spec.default_profile for spec in SPECS.values()}
    root = Path(toolglot.__file__).parent
    for path in [path for part in ("wire", "loop", "tools") for path in (root / part).rglob("*.py")]:
        texts = {
            node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
        }
        if path != root / "wire" / "spec.py":  # it knows which URL paths are Azure's
            assert not vendors & texts, path


def test_a_fact_about_a_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fact = Fact(
        ("openai-chat",), r"^nova-", {"sampling": "none", "features.parallel_off": False}, "recorded 400"
    )
    monkeypatch.setattr(catalog, "FACTS", (*FACTS, fact))
    profile = resolve_profile("openai-chat", "nova-2")
    assert (profile.sampling, profile.features.parallel_off) == ("none", False)
    assert resolve_profile("openai-chat", "gpt-4o").sampling == "all"
    assert PROFILES["openai-chat"].sampling == "all"

    encoded = encode_request(Request("nova-2", [user("hi")], options=Options(temperature=0.5)), profile)
    assert "temperature" not in encoded.body
    assert [loss.subject for loss in encoded.losses] == ["temperature"]
    body = dumps({**encoded.body, "temperature": 0.5})
    refused = Simulator().handle("POST", "/v1/chat/completions", {"authorization": "Bearer k"}, body)
    assert refused.status == 400
    assert b"'temperature' is not supported with this model" in refused.body
