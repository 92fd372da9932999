"""Calls that a server left in the text: every documented form, in any pieces; never an example; never at the
cost of text.

The forms are those of the models' chat templates; the cases follow what vLLM documents of its tool parsers.
"""

import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.values.events import Event, TextDelta
from toolglot.values.messages import Origin, Reply, Text, ToolCall
from toolglot.wire.text_calls.tracker import TextCallTracker
from toolglot.wire.tracker import ToolCallTracker

TOOLS: dict[str, dict[str, Any]] = {
    "look_up": {
        "type": "object",
        "properties": {
            "word": {"type": "string"},
            "limit": {"type": "integer"},
            "deep": {"type": "boolean"},
            "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object"},
        },
    },
    "now": {"type": "object", "properties": {}},
    "save": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}},
}
ORIGIN = Origin("openai-chat", "vllm", "m")
Expected = list[tuple[str, dict[str, Any]]]


def read(text: str, *cuts: int, bare: bool = True) -> tuple[Reply, list[Event], TextCallTracker]:
    """Read text in pieces."""
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=bare)
    bounds = [0, *sorted(bound % (len(text) + 1) for bound in cuts), len(text)]
    for start, stop in pairwise(bounds):
        tracker.add_text("content", text[start:stop])
    reply = tracker.finish()
    return reply, tracker.drain(), tracker


def calls_of(reply: Reply) -> Expected:
    return [(call.name, call.arguments or {}) for call in reply.calls]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


LOOK: tuple[str, dict[str, Any]] = ("look_up", {"word": "elm"})
NOW: tuple[str, dict[str, Any]] = ("now", {})
HERMES = '<tool_call>\n{"name": "look_up", "arguments": {"word": "elm"}}\n</tool_call>'
QWEN = "<tool_call>\n<function=look_up>\n<parameter=word>\nelm\n</parameter>\n</function>\n</tool_call>"
GLM = "<tool_call>look_up\n<arg_key>word</arg_key>\n<arg_value>elm</arg_value>\n</tool_call>"
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.look_up:0 <|tool_call_argument_begin|>"
    '{"word": "elm"}<|tool_call_end|><|tool_calls_section_end|>'
)
DEEPSEEK3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look_up\n```json\n"
    '{"word": "elm"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
HARMONY = '<|channel|>commentary to=functions.look_up <|constrain|>json<|message|>{"word": "elm"}<|call|>'
MISTRAL = '[TOOL_CALLS][{"name": "look_up", "arguments": {"word": "elm"}}]'
CASES: dict[str, tuple[str, str, Expected]] = {
    "hermes": (HERMES, "", [LOOK]),
    "hermes on one line": (HERMES.replace("\n", ""), "", [LOOK]),
    "hermes after text": (f"Let me see.\n\n{HERMES}", "Let me see.\n\n", [LOOK]),
    "hermes right after text": (f"Let me see.{HERMES}\n", "Let me see.", [LOOK]),
    "hermes after a colon": (f"Let me see:\n{HERMES}", "Let me see:\n", [LOOK]),
    "hermes twice": (
        f'{HERMES}\n<tool_call>{{"name": "now", "arguments": {{}}}}</tool_call>',
        "",
        [LOOK, NOW],
    ),
    "hermes without its end": (HERMES.removesuffix("\n</tool_call>"), "", [LOOK]),
    "hermes, ends missing": (f'<tool_call>\n{{"name": "now"}}\n{HERMES}', "", [NOW, LOOK]),
    "hermes, then text": (f"{HERMES}\n\nDone soon.", "\n\nDone soon.", [LOOK]),
    "hermes, text between": (f"A\n{HERMES}\nB\n{HERMES}", "A\n\nB\n", [LOOK, LOOK]),
    "hermes, encoded twice": (
        '<tool_call>{"name": "look_up", "arguments": "{\\"word\\": \\"elm\\"}"}</tool_call>',
        "",
        [LOOK],
    ),
    "hermes, arguments first": (
        '<tool_call>{"arguments": {"word": "elm"}, "name": "look_up"}</tool_call>',
        "",
        [LOOK],
    ),
    "hermes, end in a string": (
        '<tool_call>{"name": "save", "arguments": {"path": "a", "text": "</tool_call>\\"}"}}</tool_call>',
        "",
        [("save", {"path": "a", "text": '</tool_call>"}'})],
    ),
    "hermes, a list": ('<tool_calls>[{"name": "now", "arguments": {}}]</tool_calls>', "", [NOW]),
    "hermes, a comma too many": (
        '<tool_call>{"name": "look_up", "arguments": {"word": "elm",}}</tool_call>',
        "",
        [LOOK],
    ),
    "granite": ('<|tool_call|>[{"name": "look_up", "arguments": {"word": "elm"}}]', "", [LOOK]),
    "qwen": (QWEN, "", [LOOK]),
    "qwen after text": (f"Sure.{QWEN}", "Sure.", [LOOK]),
    "qwen without its section": (QWEN.split("\n", 1)[1].removesuffix("\n</tool_call>"), "", [LOOK]),
    "qwen without the first tag": (f"Sure.\n\n{QWEN.split(chr(10), 1)[1]}", "Sure.\n\n", [LOOK]),
    "qwen without arguments": ("<tool_call>\n<function=now>\n</function>\n</tool_call>", "", [NOW]),
    "qwen, all types": (
        "<function=look_up><parameter=word>\n10\n</parameter><parameter=limit>\n10\n</parameter>\n<parameter=deep>\nTrue\n"
        '</parameter>\n<parameter=ratio>\n0.5\n</parameter>\n<parameter=tags>\n["a", "b"]\n</parameter>\n'
        '<parameter=options>\n{"x": 1}\n</parameter>\n</function>',
        "",
        [
            (
                "look_up",
                {
                    "word": "10",
                    "limit": 10,
                    "deep": True,
                    "ratio": 0.5,
                    "tags": ["a", "b"],
                    "options": {"x": 1},
                },
            )
        ],
    ),
    "qwen, null": (
        "<function=look_up><parameter=ratio>\nnull\n</parameter></function>",
        "",
        [("look_up", {"ratio": None})],
    ),
    "qwen, a closing tag missing": (
        "<tool_call>\n<function=look_up>\n<parameter=word>\nelm\n<parameter=limit>\n3\n</parameter>\n</function>\n</tool_call>",
        "",
        [("look_up", {"word": "elm", "limit": 3})],
    ),
    "qwen, tags in a value": (
        "<function=save>\n<parameter=path>\na.xml\n</parameter>\n<parameter=text>\n<x></parameter>y</function>\n\n</parameter>\n"
        "</function>",
        "",
        [("save", {"path": "a.xml", "text": "<x></parameter>y</function>\n"})],
    ),
    "seed": (f"<seed:tool_call>{QWEN[12:-12]}</seed:tool_call>", "", [LOOK]),
    "glm": (GLM, "", [LOOK]),
    "glm on one line": (GLM.replace("\n", ""), "", [LOOK]),
    "glm without arguments": ("<tool_call>now</tool_call>", "", [NOW]),
    "glm twice": (f"{GLM}\n    {GLM.replace('elm', 'oak')}", "", [LOOK, ("look_up", {"word": "oak"})]),
    "glm, types": (
        "<tool_call>look_up<arg_key>word</arg_key><arg_value>3</arg_value><arg_key>limit</arg_key>"
        "<arg_value>3</arg_value></tool_call>",
        "",
        [("look_up", {"word": "3", "limit": 3})],
    ),
    "kimi": (KIMI, "", [LOOK]),
    "kimi, two calls": (
        KIMI.replace(
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>now:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
        ),
        "",
        [LOOK, NOW],
    ),
    "kimi, stripped": ('functions.look_up:0{"word": "elm"}', "functions.look_up:0", [LOOK]),
    "deepseek 3": (DEEPSEEK3, "", [LOOK]),
    "deepseek 3, spaces": (DEEPSEEK3.replace("▁", " "), "", [LOOK]),
    "deepseek 3.1": (
        'Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look_up<｜tool▁sep｜>{"word": "elm"}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜> And so on.",
        "Hm. And so on.",
        [LOOK, NOW],
    ),
    **{
        f"deepseek {version}": (
            f'<｜DSML｜{section}>\n<｜DSML｜invoke name="look_up">\n<｜DSML｜parameter name="word" '
            'string="true">elm'
            '</｜DSML｜parameter>\n<｜DSML｜parameter name="limit" '
            'string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
            f"</｜DSML｜{section}>",
            "",
            [("look_up", {"word": "elm", "limit": 2})],
        )
        for version, section in (("3.2", "function_calls"), ("4", "tool_calls"))
    },
    "llama": ('{"name": "look_up", "parameters": {"word": "elm"}}', "", [LOOK]),
    "llama, twice": (
        '{"name": "look_up", "parameters": {"word": "elm"}}; {"name": "now", "parameters": {}}\n'
        '{"name": "now", "arguments": {}}',
        "",
        [LOOK, NOW, NOW],
    ),
    "llama, more text": (
        '{"name": "look_up", "parameters": {"word": "elm"}} I used {look_up}.',
        " I used {look_up}.",
        [LOOK],
    ),
    "llama after text": (
        'I need a tool.\n\n{"type": "function", "name": "now", "parameters": {}}\n',
        "I need a tool.\n\n",
        [NOW],
    ),
    "llama, python tag": ('<|python_tag|>{"name": "now", "parameters": {}}<|eom_id|>', "", [NOW]),
    "llama, function tag": ('<function=look_up>{"word": "elm"}</function>', "", [LOOK]),
    "openai's own": ('{"type": "function", "function": {"name": "now", "arguments": "{}"}}', "", [NOW]),
    "json with an id first": (
        '{\n "id": "c1", "type": "function",\n "name": "now",\n "arguments": {}}',
        "",
        [NOW],
    ),
    "json, arguments first": ('{"arguments": {"word": "elm"}, "name": "look_up"}', "", [LOOK]),
    "pythonic": ("[look_up(word='elm'), now()]", "", [LOOK, NOW]),
    "pythonic, types": (
        r"""[look_up(word="Martha's \"]", limit=9, deep=True, ratio=None, tags=['a', 'b'], options={'x': 1.5})]""",
        "",
        [
            (
                "look_up",
                {
                    "word": "Martha's \"]",
                    "limit": 9,
                    "deep": True,
                    "ratio": None,
                    "tags": ["a", "b"],
                    "options": {"x": 1.5},
                },
            )
        ],
    ),
    "pythonic, marked": ("<|python_start|>[look_up(word='elm')]<|python_end|>", "", [LOOK]),
    "mistral": (
        '[TOOL_CALLS] [{"name": "look_up", "arguments": {"word": "elm"}}, {"name": "now"}]',
        "",
        [LOOK, NOW],
    ),
    "mistral, then text": ('Hi[TOOL_CALLS][{"name": "now", "arguments": {}}]\nmore', "Hi\nmore", [NOW]),
    "mistral 11": ('[TOOL_CALLS]look_up{"word": "elm"}[TOOL_CALLS]now{}', "", [LOOK, NOW]),
    "mistral 13": ('[TOOL_CALLS]look_up[ARGS]{"word": "elm"}', "", [LOOK]),
    "mistral, with an id": ('[TOOL_CALLS]look_up[CALL_ID]aB3dE6gH9[ARGS]{"word": "elm"}', "", [LOOK]),
    "harmony": (HARMONY, "", [LOOK]),
    "harmony, role first": (
        HARMONY.replace("<|channel|>commentary", "<|start|>assistant<|channel|>commentary"),
        "",
        [LOOK],
    ),
    "harmony, recipient first": (
        '<|start|>assistant to=functions.look_up<|channel|>commentary json<|message|>{"word": "elm"}<|call|>',
        "",
        [LOOK],
    ),
    "harmony without arguments": ("<|channel|>commentary to=functions.now <|message|><|call|>", "", [NOW]),
    "harmony after a thought": (
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{HARMONY}",
        "<|channel|>analysis<|message|>Hm.<|end|>",
        [LOOK],
    ),
    "harmony, stripped": (
        'assistantcommentary to=functions.look_up json{"word": "elm"}',
        "assistantcommentary to=functions.look_up json",
        [LOOK],
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="look_up">\n<parameter '
        'name="word">elm</parameter>\n</invoke>\n<invoke name="now">\n'
        "</invoke>\n</minimax:tool_call>",
        "",
        [LOOK, NOW],
    ),
    "kimi in a line": (f"I help you. {KIMI} Let me check.", "I help you.  Let me check.", [LOOK]),
    "harmony in a line": (f"<|end|>{HARMONY}<|start|>Done.", "<|end|><|start|>Done.", [LOOK]),
    **{
        f"after {intent!r}": (f"{intent}:\n{HERMES}", f"{intent}:\n", [LOOK])
        for intent in (
            "Let me read the file content",
            "I'll check the output of the tests",
            "Reading the file",
            "To see the results",
            "The next step is to read the file",
            "The file is missing. Searching",
            "The file is missing, creating it",
            "The file is missing, so I'll look for it",
            "Here is the call that reads the file",
        )
    },
    "after a thought": (
        f"<think>Is it {HERMES}?</think>\n{HERMES}",
        f"<think>Is it {HERMES}?</think>\n",
        [LOOK],
    ),
    **{
        f"after the word {name}": (
            f"The <{name}> tag is odd.\n\n{HERMES}",
            f"The <{name}> tag is odd.\n\n",
            [LOOK],
        )
        for name in ("pre", "example", "code", "examples")
    },
    "after a tag that quotes": (f"<pre>\nx\n\ny</pre>\n{HERMES}", "<pre>\nx\n\ny</pre>\n", [LOOK]),
    "after a code block": (f"```py\nx = {{}}\n```\n{HERMES}", "```py\nx = {}\n```\n", [LOOK]),
    "before a code block": (f"{HERMES}\n```py\n{{}}\n```", "\n```py\n{}\n```", [LOOK]),
    "after inline code": (
        f"I use `look_up` and ``a`b``.\n{HERMES}",
        "I use `look_up` and ``a`b``.\n",
        [LOOK],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_form_is_read_whole_and_in_pieces(case: str) -> None:
    text, remaining, expected = CASES[case]
    for cuts in (
        (),
        range(len(text)),
        range(0, len(text), 2),
        range(0, len(text), 3),
        range(0, len(text), 17),
    ):
        reply, events, tracker = read(text, *cuts)
        assert (reply.text, calls_of(reply)) == (remaining, expected)
        assert text_of(events) == remaining
        assert reply.stop == "tools"
        assert [repair.subject for repair in tracker.repairs] == [
            f"tool call {name!r}" for name, _ in expected
        ]
        assert all(call.id for call in reply.calls)


QUOTED = {
    "a code block": f"Like this:\n```\n{HERMES}\n```\n",
    "a code block with a language": f"~~~xml\n{QWEN}\n~~~",
    "a code block in a list": f"- so:\n\n  ```json\n  {HERMES}\n  ```",
    "a code block that is not closed": f"```\n{HERMES}",
    "a longer fence": f"````\n```\n{HERMES}\n```\n{HERMES}\n````",
    "indented code": f"So:\n\n    {HERMES.replace(chr(10), '')}\n\nDone.",
    "inline code": f"Write `{HERMES.replace(chr(10), '')}` to call it.",
    "inline code with text before": f"Write `so: {HERMES.replace(chr(10), '')}`.",
    "two backticks": f"Write ``{QWEN}``",
    "quotation marks": f'Write "{HERMES}".',
    "quotation marks around lines": f"Write “{QWEN}”.\nNot ‘{GLM}’.",
    "a block quote": f"> {HERMES.replace(chr(10), '')}\n> {GLM.replace(chr(10), '')}",
    "a sentence": f"Models send {HERMES.replace(chr(10), '')} and wait.",
    "a sentence with control tokens": f"The README contains {MISTRAL} which is odd.",
    "control tokens after a word": f"It prints `x` and {KIMI} there",
    "a list": f"- {HERMES}\n- other",
    "a list of calls": f"1. {GLM}\n2. {MISTRAL}",
    "a table": f"| a | {GLM.replace(chr(10), '')} |",
    **{
        f"after {words!r}": f"{words}:\n\n{call}"
        for words, call in (
            ("The file says", HERMES),
            ("Here is the file content", '<function=look_up>{"word": "elm"}</function>'),
            ("I read it. Its README.md contains", MISTRAL),
            ("Here's what I found in the log", QWEN),
            ("The output of the command was", GLM),
            ("**Output", '{"name": "now", "parameters": {}}'),
            ("For example, write", KIMI),
            ("You would call the tool with", '{"name": "now", "parameters": {}}'),
        )
    },
    "words in bold": f"**File content:**\n{HERMES}",
    "an example with an explanation": f"For example:\n{HERMES}\nThis looks up a word.",
    "code in a thought": f"<think>\n```\nx\n```\n{HERMES}\n</think>\nNo.",
    "an example at the end": f"For example, one could write:\n\n{HERMES}",
    "an example, abbreviated": f"E.g.:\n{GLM}",
    "an example in json": 'It looks like this:\n{"name": "now", "parameters": {}}',
    "a thought": f"<think>\n{HERMES}\n</think>\nNo.",
    "mistral's thought": f"[THINK]{HERMES}[/THINK]No.",
    "a tag for examples": f"<example>\n{HERMES}\n</example>",
    "a tag after words": f"So: <pre>\n\n{HERMES}\n\n{GLM}\n</pre>",
    "a tag before words": f"<code>so\n\n{HERMES}\n\n{GLM}\n</code>",
    "a tag in a line": f"So <example>it is\n{HERMES}\n</example>",
    "a tool that is not offered": HERMES.replace("look_up", "rm"),
    "qwen, not offered": QWEN.replace("look_up", "rm"),
    "one of two is not offered": '[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "rm", "arguments": '
    "{}}]",
    "harmony's own tools": HARMONY.replace("functions.look_up", "python"),
    "json in prose": 'Here it is: {"name": "now", "parameters": {}} Anything else?',
    "json, then prose": 'So:\n{"name": "now", "parameters": {}}\nThat was it.',
    "json with other keys": '{"name": "now", "arguments": {}, "age": 3}',
    "json without arguments": '{"name": "now"}',
    "json of something else": '{"name": "Ada", "parameters": {}}',
    "json in json, cut off": '{"type": "plan", "steps": [\n{"name": "now", "arguments": {}}',
    "json in json, later": '{"title": "x", "steps": [1,\n  {"name": "now", "arguments": {}}\n',
    "json as a value": '{"step":\n{"name": "now", "arguments": {}}',
    "a list of links": "[now](http://example.com/now())",
    "python with positional arguments": "[look_up('elm')]",
    "python with bytes": "[look_up(word=b'elm')]",
    "python with infinity": "[look_up(ratio=1e999)]",
    "wrong brackets": "[look_up(word=1])]",
    "no json": "<tool_call>\nI would call look_up\n</tool_call>",
    "broken json": '<tool_call>{"name": "look_up", "arguments": {word elm}}</tool_call>',
    "cut off in a string": HERMES[:-25],
    "cut off in a parameter": QWEN[:-40],
    "cut off before its end": GLM[:-15],
    "cut off in the head": "Hm <tool_ca",
    "a value with a whole call": f"<function=save>\n<parameter=text>\n{QWEN}\n</parameter>\n</function>\n",
    "an argument twice": QWEN.replace("</function>", "<parameter=word>\nash\n</parameter>\n</function>"),
    "only the section": "<｜tool▁calls▁begin｜>look_up<｜tool▁sep｜>{}<｜tool▁calls▁end｜>",
    "marks without a meaning": "a < b [TOOL] {x} <tool> <function> <|im_start|> [now] "
    "{\n}\n[\n1]\n<tool_call></tool_call>",
}


@pytest.mark.parametrize("case", QUOTED)
def test_examples_and_other_text_stay_text(case: str) -> None:
    text = QUOTED[case]
    for cuts in ((), range(len(text)), range(0, len(text), 3), range(0, len(text), 17)):
        reply, events, tracker = read(text, *cuts)
        assert (reply.text, reply.calls, tracker.repairs) == (text, (), [])
        assert text_of(events) == text


def test_a_call_with_positional_arguments_stays_text_without_asserts() -> None:
    """Under `python -O` it once became a call without them."""
    program = """
from toolglot.values.messages import Origin
from toolglot.wire.text_calls.tracker import TextCallTracker

tracker = TextCallTracker(Origin("openai-chat", "vllm", "m"), "", {"now": {"type": "object"}}, bare=True)
tracker.add_text("content", "[now('elm')]")
print(__debug__, len(tracker.finish().calls))
"""
    result = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "0"]


PIECES = [
    HERMES,
    QWEN,
    GLM,
    KIMI,
    HARMONY,
    "`",
    "```",
    "\n",
    "\n\n",
    "    ",
    "> ",
    "<think>",
    "</think>",
    "{",
    "[",
    "<",
    "elm: ",
    ".",
]


@given(
    st.lists(
        st.sampled_from([*PIECES, HERMES[:30], QWEN[20:50], '{"name": "now", "arguments": {}}', "[now()]"])
    ),
    st.data(),
)
def test_pieces_do_not_matter(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = data.draw(st.lists(st.integers(0, len(text))))
    whole, split = read(text), read(text, *cuts)
    assert split[0] == whole[0]
    assert split[2].repairs == whole[2].repairs
    assert text_of(split[1]) == whole[0].text


@given(st.lists(st.text(st.characters(exclude_characters="<[{", exclude_categories=[]))))
def test_text_without_marks_is_passed_on_as_it_comes(deltas: list[str]) -> None:
    plain, tracker = ToolCallTracker(ORIGIN), TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    for delta in deltas:
        plain.add_text("content", delta)
        tracker.add_text("content", delta)
        assert tracker.drain() == plain.drain()
    assert tracker.finish() == plain.finish()


@given(st.text(st.sampled_from('<[{`"\n tool_call>|now(){}:function=/')))
def test_nothing_is_lost_of_any_text(text: str) -> None:
    reply, events, _ = read(text, *range(len(text)))
    if not reply.calls:
        assert reply.text == text_of(events) == text


def test_marks_in_ordinary_text_do_not_delay_it() -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    for delta in (
        "if a <b and ",
        "c[0] ",
        "= {1: 2}",
        " <p>",
        "<table",
        "[x]",
        "f(",
        "{a}",
        "\n```\n",
        "{",
        '"name"',
        "[now",
        "<tool_call>",
    ):
        tracker.add_text("content", delta)
        assert text_of(tracker.drain()) == delta
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    for delta, expected in (
        ("Hm <", "Hm "),
        ("t", ""),
        ("able>", "<table>"),
        (" and <tool_call>", " and "),
        ("x<", "<tool_call>x"),
        ("b", "<b"),
    ):
        tracker.add_text("content", delta)
        assert text_of(tracker.drain()) == expected


@pytest.mark.parametrize(
    "start",
    [
        '{"type": "report", ',
        '{"id": "r1", "title": "x", ',
        '{"id": 5, ',
        '{"id": "r1", "name": "Ada", ',
        '{"function": 3, ',
        '{"type": "function", "rate": 1, ',
    ],
)
def test_json_answers_are_not_delayed(start: str) -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    tracker.add_text("content", f'{start}"rows": [0')
    assert text_of(tracker.drain()) == f'{start}"rows": [0'
    for piece in ('{"n": 1},', "\n", '{"n": 2}'):
        tracker.add_text("content", piece)
        assert text_of(tracker.drain()) == piece


def test_calls_of_the_server_make_text_text() -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    tracker.add_text("content", f"A `{HERMES}` B\n{GLM} ")
    tracker.update_call("call", "c1", "now", {})
    tracker.add_text("content", KIMI)
    reply = tracker.finish()
    assert reply.calls == (ToolCall("c1", "now", {}),)
    assert reply.text == f"A `{HERMES}` B\n{GLM} {KIMI}"
    assert tracker.repairs == []


def test_text_never_comes_out_of_its_order() -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    tracker.add_text("content", f"A.\n{HERMES}\nB.\n{GLM} ")
    assert tracker.visible_text == f"A.\n\nB.\n{GLM} "
    tracker.update_call("call", "c1", "now", {})
    reply = tracker.finish()
    assert reply.calls == (ToolCall("c1", "now", {}),)
    assert reply.text == f"A.\n\nB.\n{GLM} "
    assert [repair.reason for repair in tracker.repairs] == [
        "the server sent it as text (Hermes), besides calls of its own; left out"
    ]


def test_control_tokens_in_the_name_of_a_call_are_removed() -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    for _ in range(2):  # llama.cpp repeats the name
        tracker.update_call("a", "c1", "look_up<|channel|>commentary", '{"word":')
    tracker.add_arguments("a", ' "elm"}')
    tracker.set_block("b", ToolCall("c2", "now<|constrain|>json", {}))
    tracker.set_block("c", ToolCall("c3", "rm<|constrain|>json", {}))
    assert [call.name for call in tracker.finish().calls] == ["look_up", "now", "rm<|constrain|>json"]
    assert [repair.subject for repair in tracker.repairs] == [
        "tool name 'look_up<|channel|>commentary'",
        "tool name 'now<|constrain|>json'",
    ]


def test_an_interrupted_reply_keeps_its_text() -> None:
    for length in range(len(QWEN)):
        tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
        tracker.add_text("content", "So: " + QWEN[:length])
        assert tracker.visible_text == "So: " + QWEN[:length]


def test_thoughts_whose_beginning_is_in_the_prompt_hold_no_calls() -> None:
    for text in (
        f"I could send\n{HERMES}\n</think>\n",
        f"{HERMES}</think>",
        f"I do not say {MISTRAL}[/THINK]",
    ):
        for cuts in ((), range(len(text))):
            reply, _, tracker = read(text + GLM, *cuts)
            assert (reply.text, calls_of(reply), len(tracker.repairs)) == (text, [LOOK], 1)
    reply, events, tracker = read(f"I could send\n{HERMES}\nbut no.\n</think>\n{GLM}")
    assert reply.text == text_of(events) == "I could send\n\nbut no.\n</think>\n"
    assert calls_of(reply) == [LOOK]
    assert [repair.reason for repair in tracker.repairs] == [
        "the server sent it as text (Hermes), in a thought; left out",
        "the server sent it as text (GLM); read as a call",
    ]


def test_refusals_and_thinking_are_not_read() -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    tracker.add_thinking("reasoning", HERMES)
    tracker.add_text("refusal", HERMES)
    assert not tracker.finish().calls


def test_bare_forms_are_not_read_where_json_is_the_answer() -> None:
    text = '{"name": "now", "arguments": {}}'
    assert read(text, bare=False)[0].blocks == (Text(text),)
    assert calls_of(read(HERMES, bare=False)[0]) == [LOOK]


def test_characters_outside_the_basic_plane_in_halves() -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    for piece in (
        '<tool_call>{"name": "look_up", "arguments": {"word": "\ud83c',
        '\udf33"}}</tool_call><t\ud83c',
        "\udf33",
    ):
        tracker.add_text("content", piece)
    reply = tracker.finish()
    assert calls_of(reply) == [("look_up", {"word": "🌳"})]
    assert reply.text == "<t🌳"


@pytest.mark.parametrize(
    "piece",
    [
        "<tool_call>",
        "<tool_call>{",
        '{"name":',
        "[now(",
        "</tool_call>",
        " ",
        "`<tool_call>now</tool_call>",
        "<|channel|>a to=",
    ],
)
def test_hostile_replies_take_linear_time(piece: str) -> None:
    tracker = TextCallTracker(ORIGIN, "", TOOLS, bare=True)
    tracker.add_text("content", "<tool_call>now</tool_call>" if piece in (" ", "</tool_call>") else "x\n")
    for _ in range(1_000):
        tracker.add_text("content", piece)
    tracker.add_text("content", "\n{" * 10_000)
    tracker.finish()


@pytest.mark.parametrize(
    ("start", "end", "calls"),
    [
        ("<function=save><parameter=text>\n", "\n</parameter></function>", 1),
        ("<function=save><parameter=path>a</parameter>", "<parameter=text>\n</parameter></function>", 1),
        ("<tool_call>look_up<arg_key>", "</arg_value></tool_call>", 0),
    ],
)
def test_white_space_in_parameters_takes_linear_time(start: str, end: str, calls: int) -> None:
    text = start + " " * 300_000 + end
    reply, _, _ = read(text)
    assert (len(reply.calls), reply.text == text) == (calls, calls == 0)
