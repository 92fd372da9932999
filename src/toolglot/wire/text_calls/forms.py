"""DATA: how open models write calls as text, one row per form, and how the head of a call is recognised.

The forms are those of the models' chat templates, as vLLM's tool parsers document them (vllm/tool_parsers,
2026-11). A form begins with its head (control tokens and mostly the name), then has a body: JSON, tags, or a
list of Python calls.
"""

import re
from typing import Literal, NamedTuple

Body = Literal["calls", "arguments", "tags", "python"]
"""calls: an object with name and arguments, or a list of them; arguments: an object; python:
`[name(key=value)]`."""


class Part(NamedTuple):
    """A part of a head that is not fixed text. `partial` matches text that may still become it."""

    full: re.Pattern[str]
    partial: re.Pattern[str] | None = None


class TagStyle(NamedTuple):
    """How a form writes parameters as tags."""

    opening: str
    """A pattern whose group is the parameter's name."""
    closing: str
    end: str
    """A pattern of what ends the call."""
    trims: bool = False
    """Values stand on lines of their own: the line breaks around them are not part of them."""


class Form(NamedTuple):
    """One way to write a call."""

    title: str
    head: tuple[str | Part, ...]
    body: Body
    tags: TagStyle | None = None
    is_control: bool = False
    """It has control tokens, which a model does not write when it only talks about calls."""
    is_bare: bool = False
    """Nothing marks it as a call: only its place in the reply and the name of an offered tool do."""
    extra_tail: str = ""
    """What may follow it besides `TAILS`."""


class Head(NamedTuple):
    """The head of a call: its form, the name if the head has it, and where it ends."""

    form: Form
    name: str
    end: int


_GAP = r"\s{0,200}"  # bounded: what may be a head is matched again with every piece
_SPACE = Part(re.compile(_GAP))
_NAME = Part(re.compile(r"([\w.:/-]{1,160})"))
_BRACE, _VALUE, _TAG, _LIST = (
    Part(re.compile(pattern)) for pattern in (r"(?=\{)", r"(?=[{\[])", "(?=<)", r"(?=\[)")
)
_WORD, _CALL_ID = Part(re.compile(r"[a-z]{1,12}")), Part(re.compile(r"[A-Za-z0-9]{1,40}"))
# Harmony: the channel, the type of the content and their tokens in any order, then the message.
_MESSAGE = Part(re.compile(rf"[^{{]{{0,80}}?<\|message\|>{_GAP}(?=[{{<])"), re.compile(r"[^{]{0,300}\Z"))
_FENCE = Part(
    re.compile(rf"{_GAP}```(?:json)?{_GAP}(?=\{{)"),
    re.compile(rf"{_GAP}(?:`{{0,2}}|```(?:j|js|jso|json)?{_GAP})\Z"),
)
# A bare object begins with the name or the arguments, or with an id or the type before them: any other object
# is an answer.
_COLON = rf"{_GAP}:{_GAP}"
_FIRST_KEYS = rf'(?:"(?:id"{_COLON}"[^"\\]{{0,80}}|type"{_COLON}"function)"{_GAP},{_GAP}){{0,2}}'
_KEYS = Part(
    re.compile(
        rf'{_FIRST_KEYS}"(?:name"{_COLON}"([\w.:/-]{{1,160}})"|(?:arguments|parameters|function)"{_COLON}(?=["{{]))'
    ),
    re.compile(
        rf'{_FIRST_KEYS}(?:"(?:[a-z]{{0,10}}|(?:name|arguments|parameters|function|id|type)"{_GAP}(?::{_GAP})?'
        rf'|name"{_COLON}"[\w.:/-]{{0,160}}|(?:id|type)"{_COLON}"[^"\\]{{0,80}}(?:"{_GAP}(?:,{_GAP})?)?))?\Z'
    ),
)

_QWEN = TagStyle(r"<parameter=([^>\n]{1,160})>", "</parameter>", "</function>|</tool_call>", trims=True)
_INVOKE = TagStyle(r'<parameter name="([^"\n]{1,160})"[^>\n]{0,40}>', "</parameter>", "</invoke>")
_DSML = TagStyle(
    r'<｜DSML｜parameter name="([^"\n]{1,160})"[^>\n]{0,40}>', "</｜DSML｜parameter>", "</｜DSML｜invoke>"
)
_GLM = TagStyle(r"<arg_key>([^<]{1,160})</arg_key>\s*<arg_value>", "</arg_value>", "</tool_call>")
_MARKED_SPACES = "▁_ "  # some conversions of DeepSeek's models write the first of these as one of the others
_DEEPSEEK_TOKENS = tuple(
    tuple(
        f"<｜{words.replace(' ', space)}｜>" for words in ("tool calls begin", "tool call begin", "tool sep")
    )
    for space in _MARKED_SPACES
)


def _wrap(wrappers: tuple[str, ...], form: Form) -> list[Form]:
    """Return a form with each of the tokens that may open a section of calls, and without."""
    return [form, *(form._replace(head=(wrapper, _SPACE, *form.head)) for wrapper in wrappers)]


def _control(
    title: str, head: tuple[str | Part, ...], body: Body = "arguments", *, extra_tail: str = ""
) -> Form:
    """Return a form with control tokens."""
    return Form(title, head, body, is_control=True, extra_tail=extra_tail)


FORMS: tuple[Form, ...] = (
    Form("Hermes", ("<tool_call>", _SPACE, _VALUE), "calls"),
    Form("Hermes", ("<tool_calls>", _SPACE, _VALUE), "calls"),
    _control("Granite", ("<|tool_call|>", _SPACE, _VALUE), "calls"),
    _control("Llama", ("<|python_tag|>", _SPACE, _BRACE), "calls"),
    Form("GLM", ("<tool_call>", _SPACE, _NAME, _SPACE, _TAG), "tags", _GLM),
    Form("GLM", ("<tool_call>", _SPACE, _NAME, _SPACE, _BRACE), "arguments"),
    *_wrap(
        ("<tool_call>", "<seed:tool_call>"),
        Form("Qwen3-Coder", ("<function=", _NAME, ">", _SPACE, _TAG), "tags", _QWEN),
    ),
    *_wrap(("<tool_call>",), Form("Llama", ("<function=", _NAME, ">", _SPACE, _BRACE), "arguments")),
    *_wrap(
        ("<minimax:tool_call>", "<function_calls>"),
        Form("MiniMax", ('<invoke name="', _NAME, '">'), "tags", _INVOKE),
    ),
    *_wrap(
        ("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
        Form("DeepSeek", ('<｜DSML｜invoke name="', _NAME, '">'), "tags", _DSML, is_control=True),
    ),
    *(
        row
        for section, call, separator in _DEEPSEEK_TOKENS
        for row in (
            *_wrap(
                (section,),
                _control("DeepSeek", (call, "function", separator, _NAME, _FENCE), extra_tail="```"),
            ),
            *_wrap((section,), _control("DeepSeek", (call, _NAME, separator, _SPACE, _BRACE))),
        )
    ),
    *_wrap(
        ("<|tool_calls_section_begin|>",),
        _control(
            "Kimi",
            ("<|tool_call_begin|>", _SPACE, _NAME, _SPACE, "<|tool_call_argument_begin|>", _SPACE, _BRACE),
        ),
    ),
    _control("Mistral", ("[TOOL_CALLS]", _SPACE, _VALUE), "calls"),
    _control("Mistral", ("[TOOL_CALLS]", _SPACE, _NAME, _BRACE)),
    _control("Mistral", ("[TOOL_CALLS]", _SPACE, _NAME, "[ARGS]", _SPACE, _BRACE)),
    _control("Mistral", ("[TOOL_CALLS]", _SPACE, _NAME, "[CALL_ID]", _CALL_ID, "[ARGS]", _SPACE, _BRACE)),
    _control("Harmony", ("<|channel|>", _WORD, " to=", _NAME, _MESSAGE)),
    _control("Harmony", ("<|start|>assistant to=", _NAME, _MESSAGE)),
    _control("Harmony", ("<|start|>assistant<|channel|>", _WORD, " to=", _NAME, _MESSAGE)),
    _control("Llama", ("<|python_start|>", _SPACE, _LIST), "python"),
    _control("Llama", ("<|python_tag|>", _SPACE, _LIST), "python"),
    Form("Llama", ("[", _SPACE, _NAME, "("), "python", is_bare=True),
    Form("plain JSON", ("{", _SPACE, _KEYS), "calls", is_bare=True, extra_tail=";"),
)
# Servers that strip control tokens (vLLM does by default) leave the name before the arguments: Harmony, Kimi.
_STRIPPED_HEAD = re.compile(
    r"\bto=functions\.([\w.-]{1,160})[^{}\n]{0,40}\Z|\bfunctions\.([\w.-]{1,160}):\d{1,4}\s*\Z"
)
_STRIPPED = Form("Harmony or Kimi", (), "arguments")
# What may follow a call, and belongs to it.
TAILS = (
    *(
        "</tool_call>",
        "</tool_calls>",
        "</seed:tool_call>",
        "</minimax:tool_call>",
        "</function>",
        "</function_calls>",
    ),
    *(
        f"<｜{words.replace(' ', space)}｜>"
        for words in ("tool call end", "tool calls end", "end of sentence")
        for space in _MARKED_SPACES
    ),
    *(
        "</｜DSML｜function_calls>",
        "</｜DSML｜tool_calls>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
    *(
        "<|call|>",
        "<|end|>",
        "<|return|>",
        "<|python_end|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|im_end|>",
        "</s>",
    ),
)


# What a head can begin with; one search per delta tells that there is none.
TRIGGER = re.compile(r'<(?=[tsfmi|｜]|\Z)|\[(?=[A-Za-z_\s]|\Z)|\{(?=[\s"}]|\Z)')
_BY_CHARACTER = {mark: tuple(form for form in FORMS if str(form.head[0])[0] == mark) for mark in "<[{"}


def find_head(text: str, start: int, *, bare: bool) -> Head | Literal["partial"] | None:
    """Return the head that begins at `start`; "partial" if more text may make it one.

    `bare`: bare forms count here.
    """
    is_partial = False
    for form in _BY_CHARACTER[text[start]]:
        if form.is_bare and not bare:
            continue
        match _match_head(form, text, start):
            case Head() as head:
                return head
            case "partial":
                is_partial = True
            case _:
                pass
    return "partial" if is_partial else None


def find_stripped_head(line: str, place: int) -> Head | None:
    """Return the head of arguments that begin at `place`, if the line before them ends with a name."""
    match = _STRIPPED_HEAD.search(line)
    if match is None:
        return None
    return Head(_STRIPPED, match[1] or match[2], place)


def _match_head(form: Form, text: str, position: int) -> Head | Literal["partial"] | None:
    start = position
    name = ""
    for part in form.head:
        if isinstance(part, str):
            piece = text[position : position + len(part)]
            position += len(piece)
            if piece == part:
                continue
            can_continue = position == len(text) and part.startswith(piece)
            return "partial" if can_continue else None
        match = part.full.match(text, position)
        if match is None:
            can_continue = part.partial.match(text, position) if part.partial else position == len(text)
            return "partial" if can_continue else None
        position = match.end()
        if match.lastindex:
            name = match[1]
    # the body of a bare form begins with its head, which tells the name
    body_start = start if form.is_bare else position
    return Head(form, name, body_start)
