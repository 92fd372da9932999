"""The official SDKs' own decoders, fed with bytes in process: no socket, no HTTP parsing.

`openai.Stream` and `anthropic.Stream` get a response made by hand. google-genai and ollama have no such seam:
their clients get a transport that answers at once, so one request (about a millisecond) is in their figure.
What they yield is joined by hand, as every user of a raw stream has to do.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

from bench.streams import StreamOutcome

Read = Callable[[Iterable[bytes]], StreamOutcome]
SDK_NAMES = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
    "gemini": "google.genai",
    "ollama-chat": "ollama",
}


def load_sdk_reader(wire: str) -> Read | None:
    """The reader of the wire's official SDK; None where it is not installed."""
    try:
        return {
            "openai-chat": _openai_chat,
            "openai-responses": _openai_responses,
            "anthropic-messages": _anthropic,
            "gemini": _gemini,
            "ollama-chat": _ollama,
        }[wire]()
    except ImportError:
        return None


def _openai_chat() -> Read:
    import httpx2
    import openai
    from openai.types.chat import ChatCompletionChunk

    client = openai.OpenAI(api_key="none")

    def read(reads: Iterable[bytes]) -> StreamOutcome:
        text, arguments, calls = list[str](), 0, 0
        response = httpx2.Response(200, content=iter(reads))
        for chunk in openai.Stream(cast_to=ChatCompletionChunk, response=response, client=client):
            for choice in chunk.choices:
                if choice.delta.content:
                    text.append(choice.delta.content)
                for call in choice.delta.tool_calls or ():
                    calls += bool(call.id)
                    if call.function and call.function.arguments:
                        arguments += len(call.function.arguments)
        return StreamOutcome("".join(text), calls, arguments)

    return read


def _openai_responses() -> Read:
    import httpx2
    import openai
    from openai.types.responses import ResponseStreamEvent

    client = openai.OpenAI(api_key="none")

    def read(reads: Iterable[bytes]) -> StreamOutcome:
        text, arguments, calls = list[str](), 0, 0
        response = httpx2.Response(200, content=iter(reads))
        stream: Any = openai.Stream(cast_to=cast(Any, ResponseStreamEvent), response=response, client=client)
        for event in stream:
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.function_call_arguments.delta":
                arguments += len(event.delta)
            elif event.type == "response.output_item.added":
                calls += event.item.type == "function_call"
        return StreamOutcome("".join(text), calls, arguments)

    return read


def _anthropic() -> Read:
    import anthropic
    import httpx2
    from anthropic.types import RawMessageStreamEvent

    client = anthropic.Anthropic(api_key="none")

    def read(reads: Iterable[bytes]) -> StreamOutcome:
        text, arguments, calls = list[str](), 0, 0
        response = httpx2.Response(200, content=iter(reads))
        stream: Any = anthropic.Stream(
            cast_to=cast(Any, RawMessageStreamEvent), response=response, client=client
        )
        for event in stream:
            if event.type == "content_block_delta":
                if event.delta.type == "text_delta":
                    text.append(event.delta.text)
                elif event.delta.type == "input_json_delta":
                    arguments += len(event.delta.partial_json)
            elif event.type == "content_block_start":
                calls += event.content_block.type == "tool_use"
        return StreamOutcome("".join(text), calls, arguments)

    return read


def _gemini() -> Read:
    import httpx2
    from google import genai

    answer: Iterable[bytes] = ()
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=iter(answer)))
    options = genai.types.HttpOptions(httpx_client=cast(Any, httpx2.Client(transport=transport)))
    client = genai.Client(api_key="none", vertexai=False, http_options=options)

    def read(reads: Iterable[bytes]) -> StreamOutcome:
        nonlocal answer
        answer = reads
        text, arguments, calls = list[str](), 0, 0
        for chunk in cast(
            Any, client.models.generate_content_stream(model="gemini-3.5-flash", contents="go")
        ):
            for part in chunk.candidates[0].content.parts:
                if part.text:
                    text.append(part.text)
                elif part.function_call:
                    calls += bool(part.function_call.name)
                    arguments += sum(
                        len(piece.string_value) for piece in part.function_call.partial_args or ()
                    )
        return StreamOutcome("".join(text), calls, arguments)

    return read


def _ollama() -> Read:
    import httpx
    import ollama

    answer: Iterable[bytes] = ()
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=iter(answer)))
    client = ollama.Client(host="http://localhost", transport=transport)

    def read(reads: Iterable[bytes]) -> StreamOutcome:
        nonlocal answer
        answer = reads
        text, arguments, calls = list[str](), 0, 0
        for chunk in client.chat(model="qwen3:4b", messages=[], stream=True):
            if chunk.message.content:
                text.append(chunk.message.content)
            for call in chunk.message.tool_calls or ():
                calls += 1
                arguments += sum(len(value) for value in call.function.arguments.values())
        return StreamOutcome("".join(text), calls, arguments)

    return read
