"""Values that users create are checked when they are made, and take any iterable where they keep a tuple or a
frozenset.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from toolglot import (
    BuiltinOptions,
    Case,
    ContextPolicy,
    Facade,
    Field,
    MalformedRequest,
    Media,
    Message,
    Options,
    Rate,
    Reply,
    Request,
    RetryConfig,
    Root,
    RunLimits,
    ShellOptions,
    Text,
    Timeouts,
    ToolChoice,
    ToolConfig,
    ToolDefinition,
    ToolExample,
    ToolResult,
    UsageError,
    View,
    WebConfig,
    decode_request,
    tool,
)
from toolglot.common.value_checks import FORMER_OPTIONS, OptionMeta

NUMBERS: dict[str, Any] = {
    "max_tokens": -1,
    "temperature": -1,
    "top_p": 2,
    "top_k": -1,
    "thinking_budget": -2,
}


@pytest.mark.parametrize(("kind", "fields", "message"), [
    (Timeouts, {"connect": 0}, "connect of Timeouts: expected `float` > 0.0"),
    (Timeouts, {"idle": "3"}, "idle of Timeouts: expected `float | None`, got `str`"),
    (ContextPolicy, {"when_full": "cut"}, "invalid enum value 'cut'; known: compact, trim, off"),
    (ContextPolicy, {"keep": 1}, "keep of ContextPolicy: expected `float` < 1.0"),
    (ContextPolicy, {"budget": 0}, "budget of ContextPolicy: expected `int` >= 1"),
    *((Options, {name: value}, f"{name} of Options: expected `") for name, value in NUMBERS.items()),
    *((Options, {name: "1"}, f"{name} of Options: expected `") for name in (*NUMBERS, "seed", "presence_penalty", "cache")),
    (Options, {"effort": "hgh"}, "known: none, minimal, low, medium, high, xhigh, max"),
    (Options, {"temperature": float("nan")}, "temperature of Options: expected `float` >= 0.0"),
    (Options, {"stop": [1]}, "stop of Options: expected `str`, got `int`"),
    (ToolChoice, {"mode": "any"}, "mode of ToolChoice: invalid enum value 'any'; known: auto, none, "
                                  "required"),
    (ToolChoice, {"names": 1}, "names of ToolChoice: expected `str`, got `int`"),
    (Rate, {"calls": -1, "seconds": 1}, "calls of Rate: expected `int` >= 0"),
    (Rate, {"calls": 1, "seconds": 0}, "seconds of Rate: expected `float` > 0.0"),
    (RetryConfig, {"jitter": 2}, "jitter of RetryConfig: expected `float` <= 1.0"),
    (ToolConfig, {"retry": RetryConfig}, "retry of ToolConfig: expected `RetryConfig`"),
    (ShellOptions, {"processes": 0}, "processes of ShellOptions: expected `int` >= 1"),
    (ShellOptions, {"hidden": ["a"]}, "hidden of ShellOptions: expected `Path`, got `str`"),
    (WebConfig, {"timeout": "3"}, "timeout of WebConfig: expected `float`, got `str`"),
    (WebConfig, {"max_chars": 1}, "max_chars of WebConfig: expected `int` >= 200"),
    (WebConfig, {"brave_key": 3}, "brave_key of WebConfig: expected a text or a function that returns one, "
                                  "got int"),
    (BuiltinOptions, {"web": True}, "web of BuiltinOptions: expected `WebConfig`, got `bool`"),
    (BuiltinOptions, {"other_roots": ["a"]}, "other_roots of BuiltinOptions: expected `Root`, got `str`"),
    (Root, {"path": 3}, "path of Root: expected `Path`, got `int`"),
    (Media, {"kind": "picture"}, "kind of Media: invalid enum value 'picture'; known: image, audio, video, "
                                 "file"),
    (Media, {"kind": "image", "data": 3}, "data of Media: expected `str | None`, got `int`"),
    (Case, {"base": "read", "result": "text"}, "result of Case: expected `Callable`, got `str`"),
    (Facade, {"id": "a", "title": "A", "views": 3}, "views of Facade: expected `View`, got `int`"),
    (Message, {"role": "user", "blocks": 3}, "the content of a message is text or blocks, not int"),
])  # fmt: skip
def test_wrong_value_is_refused_when_it_is_made(
    kind: Callable[..., Any], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(("kind", "name", "message"), [
    (ToolConfig, "max_iterations", "ToolConfig.max_iterations is now RunLimits.max_iterations"),
    (ToolConfig, "max_tokens", "ToolConfig.max_tokens is now RunLimits.max_total_tokens"),
    (ToolConfig, "max_per_minute", "ToolConfig.max_per_minute is now ToolConfig.rates"),
    (RunLimits, "max_tokens", "unknown RunLimits option 'max_tokens'; did you mean 'max_total_tokens' or "
                              "'Options.max_tokens'?"),
    (Options, "temprature", "unknown Options option 'temprature'; did you mean 'temperature'?"),
    (Rate, "call", "unknown Rate option 'call'; did you mean 'calls'?"),
    (Rate, "x", "unknown Rate option 'x'; known: calls, seconds"),
])  # fmt: skip
def test_option_that_there_is_not_is_named(kind: Callable[..., Any], name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**{name: 3})
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", OptionMeta.kinds)
def test_former_options_lead_to_options(kind: type[msgspec.Struct]) -> None:
    fields = {f"{kind.__name__}.{name}" for name in kind.__struct_fields__}
    assert fields.isdisjoint(FORMER_OPTIONS)
    for new in FORMER_OPTIONS.values():
        assert new in fields or not new.startswith(f"{kind.__name__}.")


def test_missing_option_is_still_pythons_error() -> None:
    with pytest.raises(TypeError, match="Missing required argument 'calls'"):
        cast(Callable[..., Any], Rate)()


def test_any_iterable_is_kept_as_a_tuple_or_a_frozenset() -> None:
    assert Options(stop=["a", "b"]).stop == ("a", "b")
    assert Options(stop="a").stop == ("a",)
    assert ToolChoice("required", ["a"]) == ToolChoice("required", ("a",))
    assert WebConfig(allow_private=(host for host in ["localhost"])).allow_private == ("localhost",)  # type: ignore[arg-type]
    assert BuiltinOptions(unprotected=[".git"], other_roots=[Root(Path("a"))]).unprotected == frozenset(
        {".git"}
    )
    assert ShellOptions(hidden=[Path("a")]).hidden == (Path("a"),)
    definition = ToolDefinition("f", tags=["a"], examples=[ToolExample({})])
    assert (definition.tags, definition.examples) == (frozenset({"a"}), (ToolExample({}),))
    assert Request("m", [], [definition]).tools == (definition,)
    case = Case(base="read", fields=["path", Field("a", "b")])
    names: dict[str, Any] = {"aliases": ["read"], "ignored": ["a"], "represents": "read"}
    view = View(name="Read", description="", parameters=None, cases={"": case}, **names)
    assert (case.fields, view.aliases, view.ignored, view.base_tools) == (
        ("path", Field("a", "b")), ("read",), frozenset({"a"}), frozenset({"read"}),
    )  # fmt: skip
    assert Facade(id="a", title="A", views=[view], hides=["grep"]) == Facade(
        id="a", title="A", views=(view,), hides={"grep"}
    )


def test_one_tag_is_not_taken_apart() -> None:
    tagged = tool(lambda: None, name="f", tags="weather")
    assert tagged.tags == tagged.definition.tags == frozenset({"weather"})
    assert tagged.replace(tags=["a"]).definition.tags == frozenset({"a"})


def test_messages_take_lists_and_texts_at_run_time() -> None:
    content: Any = ["a", Text("b")]
    blocks = (Text("a"), Text("b"))
    assert (
        Message("user", content).blocks == Reply(content).blocks == ToolResult("1", content).content == blocks
    )
    text: Any = "hello"
    assert ToolResult("1", text).text == Message("user", text).text == "hello"


def test_wrong_options_in_a_body_are_a_malformed_request() -> None:
    with pytest.raises(MalformedRequest, match="temperature of Options: expected `float"):
        decode_request("openai-chat", {"model": "m", "messages": [], "temperature": "hot"})
