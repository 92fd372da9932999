"""The official clients run a whole tool loop against the simulator, with their own code for streams and
history.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import anthropic
import ollama
import openai
import pytest
from anthropic import beta_tool
from google import genai
from google.genai import types

from toolglot.common.jsontext import loads_object
from toolglot.simulator.server import serve

PROMPT = "What is the weather in Paris and in Rome?"
ANSWER = "Here is what came back. get_weather: sunny in Paris. get_weather: sunny in Rome."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CITIES: list[str] = []  # what the tool was called with


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Name of the city.
    """
    CITIES.append(city)
    return f"sunny in {city}"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A simulator that runs in a thread of its own: the clients here are synchronous."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = serve()
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)  # pyright: ignore[reportArgumentType]
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)  # pyright: ignore[reportArgumentType]
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CITIES.clear()


@pytest.fixture
def gpt(url: str) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=2, http_client=http) as client:
        yield client


@pytest.fixture
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    http = anthropic.DefaultHttpxClient(trust_env=False)
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=2, http_client=http) as client:
        yield client


@pytest.fixture
def gemini(url: str) -> Iterator[genai.Client]:
    options = types.HttpOptions(base_url=url, client_args={"trust_env": False})
    with genai.Client(api_key="none", http_options=options) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True])
def test_openai_chat(gpt: openai.OpenAI, stream: bool) -> None:
    tool: Any = {
        "type": "function",
        "function": {"name": "get_weather", "parameters": SCHEMA, "strict": True},
    }
    messages: list[Any] = [{"role": "user", "content": PROMPT}]

    def ask() -> Any:
        if not stream:
            return gpt.chat.completions.create(model="gpt-4o", messages=messages, tools=[tool])
        with gpt.chat.completions.stream(model="gpt-4o", messages=messages, tools=[tool]) as events:
            return events.get_final_completion()

    message = ask().choices[0].message
    messages.append(message)
    for call in message.tool_calls:
        result = get_weather(**loads_object(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert (CITIES, ask().choices[0].message.content) == (["Paris", "Rome"], ANSWER)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
def test_openai_responses(gpt: openai.OpenAI, store: bool, stream: bool) -> None:
    tool: Any = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}
    items: list[Any] = [{"role": "user", "content": PROMPT}]

    def ask() -> Any:
        if not stream:
            return gpt.responses.create(model="gpt-5.1", input=items, tools=[tool], store=store)
        with gpt.responses.stream(model="gpt-5.1", input=items, tools=[tool], store=store) as events:
            return events.get_final_response()

    first = ask()
    items += first.output
    assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
    for item in first.output[1:]:
        result = get_weather(**loads_object(item.arguments))
        items.append({"type": "function_call_output", "call_id": item.call_id, "output": result})
    assert (CITIES, ask().output_text) == (["Paris", "Rome"], ANSWER)


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic(claude: anthropic.Anthropic, stream: bool) -> None:
    tool: Any = {"name": "get_weather", "description": "The weather of a city.", "input_schema": SCHEMA}
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    body: Any = {"model": "claude-opus-5", "max_tokens": 1000, "messages": messages, "tools": [tool]}
    body["thinking"] = {"type": "adaptive"}

    def ask() -> Any:
        if not stream:
            return cast("Any", claude.messages.create(**body))
        with claude.messages.stream(**body) as events:
            return events.get_final_message()

    first = ask()
    assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": get_weather(**block.input)}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    assert (CITIES, ask().content[-1].text) == (["Paris", "Rome"], ANSWER)


@pytest.mark.parametrize("stream", [False, True])
def test_anthropic_tool_runner(claude: anthropic.Anthropic, stream: bool) -> None:
    """The client's own loop."""
    runner: Any = cast(Any, claude.beta.messages).tool_runner(
        model="claude-opus-5",
        max_tokens=1000,
        messages=[{"role": "user", "content": PROMPT}],
        tools=[beta_tool(get_weather)],
        stream=stream,
    )
    last = runner.until_done()
    assert (CITIES, last.content[-1].text) == (["Paris", "Rome"], ANSWER)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro-preview"])
def test_gemini(gemini: genai.Client, model: str, stream: bool) -> None:
    """The client runs the functions itself, and keeps the history."""
    chat: Any = cast(Any, gemini.chats).create(
        model=model, config=types.GenerateContentConfig(tools=[get_weather])
    )
    chunks = chat.send_message_stream(PROMPT) if stream else [chat.send_message(PROMPT)]
    text = "".join(chunk.text or "" for chunk in chunks)
    assert (CITIES, text) == (["Paris", "Rome"], ANSWER)
    assert chat.send_message("hello").text == "You said: hello"


@pytest.mark.parametrize("stream", [False, True])
def test_ollama(url: str, stream: bool) -> None:
    client = ollama.Client(host=url, trust_env=False)
    messages: list[Any] = [{"role": "user", "content": PROMPT}]

    def ask() -> ollama.Message:
        answer: Any = cast(Any, client).chat(
            model="qwen3", messages=messages, tools=[get_weather], stream=stream
        )
        if not stream:
            return answer.message
        message = ollama.Message(role="assistant", content="", tool_calls=[])
        for chunk in answer:
            message.content = (message.content or "") + (chunk.message.content or "")
            message.tool_calls = [*(message.tool_calls or []), *(chunk.message.tool_calls or [])]
        return message

    first = ask()
    messages.append(first)
    for call in first.tool_calls or []:
        result = get_weather(**call.function.arguments)
        messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    assert (CITIES, ask().content) == (["Paris", "Rome"], ANSWER)
    cast(Any, client)._client.close()


@pytest.mark.parametrize("fault", ["rate-limit:0.001", "overloaded", "reset"])
def test_clients_try_again(gpt: openai.OpenAI, claude: anthropic.Anthropic, fault: str) -> None:
    """Faults look real enough for the clients' own retries."""
    words = f"fault {fault}\nsay Done."
    completion = gpt.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": words}])
    assert completion.choices[0].message.content == "Done."
    words = f"fault {fault}\nsay Also done."
    also: Any = claude.messages.create(
        model="claude-opus-5", max_tokens=100, messages=[{"role": "user", "content": words}]
    )
    assert also.content[-1].text == "Also done."


def test_refusals_are_the_clients_own_errors(
    gpt: openai.OpenAI, claude: anthropic.Anthropic, gemini: genai.Client
) -> None:
    with pytest.raises(openai.BadRequestError, match="did not have response messages: call_1"):
        gpt.chat.completions.create(
            model="gpt-4o",
            messages=[
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    ],
                }
            ],
        )
    with pytest.raises(anthropic.BadRequestError, match="text content blocks must be non-empty"):
        claude.messages.create(
            model="claude-opus-5",
            max_tokens=9,
            messages=[{"role": "user", "content": [{"type": "text", "text": ""}]}],
        )
    with pytest.raises(genai.errors.ClientError, match="function response turn"):
        cast(Any, gemini.models).generate_content(
            model="gemini-3-pro-preview",
            contents=[types.Part.from_function_response(name="f", response={"x": 1})],
        )


QUESTION: Any = [{"role": "user", "content": "say hi"}]


def test_anthropic_counts_and_lists(claude: anthropic.Anthropic) -> None:
    body: Any = {"model": "claude-opus-5", "messages": QUESTION}
    reply = cast("Any", claude.messages.create(max_tokens=100, **body))
    assert claude.messages.count_tokens(**body).input_tokens == reply.usage.input_tokens
    assert "claude-sonnet-5" in [model.id for model in claude.models.list()]
    assert claude.models.retrieve("claude-sonnet-5").display_name == "claude-sonnet-5"


def test_openai_counts_lists_and_compacts(gpt: openai.OpenAI) -> None:
    response = gpt.responses.create(model="gpt-5.1", input=QUESTION)
    counted = gpt.responses.input_tokens.count(model="gpt-5.1", input=QUESTION)
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens
    assert "gpt-5.1" in [model.id for model in gpt.models.list()]
    with pytest.raises(openai.NotFoundError):
        gpt.models.retrieve("gpt-nope")
    history: Any = [*QUESTION, *response.output, {"role": "user", "content": "say bye"}]
    compacted = gpt.responses.compact(model="gpt-5.1", input=history)
    assert [item.type for item in compacted.output] == ["message", "message", "compaction"]
    # its type of messages is the model's
    shorter: Any = [item.to_dict(warnings=False) for item in compacted.output]
    assert gpt.responses.create(model="gpt-5.1", input=shorter).output_text == "bye"


def test_gemini_counts_and_lists(gemini: genai.Client) -> None:
    models = cast("Any", gemini.models)
    reply = models.generate_content(model="gemini-2.5-flash", contents="say hi")
    total = models.count_tokens(model="gemini-2.5-flash", contents="say hi").total_tokens
    assert total == reply.usage_metadata.prompt_token_count
    assert "models/gemini-2.5-flash" in [model.name for model in gemini.models.list()]


def test_ollama_lists_and_shows(url: str) -> None:
    with cast("Any", ollama.Client(url, trust_env=False)) as client:
        assert "qwen3:latest" in [model.model for model in client.list().models]
        assert "tools" in client.show("qwen3:latest").capabilities
