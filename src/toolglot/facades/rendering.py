"""What tables share: rows that several harnesses have, values of other units, and words for results. It names no harness."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.view import Arguments, Case, Field, RenderContext, Renderer, View, omit
from toolglot.request import Schema

__all__ = [
    "QUERY_FIELD",
    "SINGLE_LINE_TERMS",
    "SINGLE_URL_TERMS",
    "accepted_field",
    "call_field",
    "clip_lines",
    "cwd_field",
    "drop_none",
    "edit_failure_reason",
    "exited_nonzero",
    "format_matches",
    "has_command",
    "has_single_query",
    "ignore_file_fields",
    "is_missing",
    "is_single_page",
    "line_range_fields",
    "native_argument",
    "number_lines",
    "pick",
    "plural",
    "questions_field",
    "questions_from_base",
    "render_data",
    "render_page",
    "replace_all_field",
    "simple_view",
    "suggested_names",
    "to_milliseconds",
    "to_seconds",
    "translate_failure",
    "translate_terms",
]

MAX_TIMEOUT = 7200.0
"""Seconds that a command may take."""

# ---- values


def drop_none(arguments: Mapping[str, Any]) -> Arguments:
    """Arguments without those that say nothing."""
    return {name: value for name, value in arguments.items() if value is not None}


def pick(arguments: Mapping[str, Any], *names: str, **renamed: str) -> Arguments:
    """Some of the arguments, where they are there: of the same names, and of new names (new="old")."""
    wanted = {**{name: name for name in names}, **renamed}
    return {new: arguments[old] for new, old in wanted.items() if old in arguments}


def to_seconds(name: str, value: float, limit: float = MAX_TIMEOUT) -> float:
    """Seconds of a timeout in milliseconds, as many as there may be; `name`: what it is to the model. Raises ToolError."""
    if value <= 0:
        raise ToolError(f"{name} is {value:g}; give milliseconds above 0", kind="validation")
    return min(value / 1000, limit)


def to_milliseconds(value: float) -> int:
    """Milliseconds of seconds."""
    return round(value * 1000)


# ---- what can be said


def has_command(base: Arguments) -> object:
    """Whether a call of the shell is one command line; a program and its words are said as one elsewhere."""
    return base.get("command")


def is_single_page(base: Arguments) -> bool:
    """Whether one page is opened, and not several."""
    return isinstance(base.get("target"), str)


def has_single_query(min_length: int = 0) -> Callable[[Arguments], bool]:
    """Whether one thing is searched for, in at least so many characters."""

    def says(base: Arguments) -> bool:
        queries: list[str] = base.get("queries") or []
        return len(queries) == 1 and len(queries[0]) >= min_length

    return says


# ---- rows


def simple_view(name: str, description: str, parameters: Schema, case: Case, **options: Any) -> View:
    """A view that means one thing."""
    return View(name=name, description=description, parameters=parameters, cases={"": case}, **options)


def accepted_field(native: str, base: str, to_base: Callable[[Any], Any] | None = None) -> Field:
    """A parameter that calls may have, and that is never shown or said."""
    return Field(native=native, base=base, to_base=to_base, from_base=omit)


def call_field(native: str, base: str, to_base: Callable[[Arguments], Any], from_base: Callable[[Arguments], Any]) -> Field:
    """A parameter that is made from all of a call."""
    return Field(native=native, base=base, to_base=to_base, from_base=from_base, needs_all_arguments=True)


def cwd_field(native: str) -> Field:
    """The folder that a command runs in; without it, the workspace."""
    return Field(native=native, base="cwd", from_base=lambda folder: UNSET if folder == "." else folder)


def ignore_file_fields(options: dict[str, str]) -> tuple[Field, ...]:
    """Whether ignore files count, which is said in an object of its own: names there -> base parameters."""

    def chosen(native: str) -> Callable[[Arguments], Any]:
        return lambda given: cast(Arguments, given.get("file_filtering_options", {})).get(native, UNSET)

    def back(base: Arguments) -> Any:
        return {native: base[name] for native, name in options.items() if base.get(name) is not None} or UNSET

    return tuple(call_field("file_filtering_options", name, chosen(native), back) for native, name in options.items())


def replace_all_field(native: str) -> Field:
    """Whether every occurrence is replaced: true or false here, all or one there."""
    said = {"all": True, "one": False}
    return Field(
        native=native,
        base="count",
        to_base=lambda every: "all" if every else "one",
        from_base=lambda count: said.get(count, UNSET),
    )


QUERY_FIELD = Field(native="query", base="queries", to_base=lambda query: [query], from_base=lambda queries: queries[0])
"""One thing to search for, where there may be several."""


def line_range_fields(
    tool: str, offset: str, limit: str, first_line: int, *, zero_is_default: bool = False
) -> tuple[Field, Field]:
    """A first line and a number of lines, where a file's first line is `first`. `usual`: a limit of 0 is the usual one."""

    def start(native: Arguments) -> Any:
        return max(int(native[offset]) - first_line, 0) + 1 if offset in native else UNSET

    def end(native: Arguments) -> Any:
        most = native.get(limit)
        if most is None or (zero_is_default and not most):
            return UNSET
        if most < 1:
            raise ToolError(f"{tool}: {limit} is {most:g}; give 1 or more lines", kind="validation")
        begin = start(native)
        return int(most) if begin is UNSET else begin + int(most) - 1

    def back_offset(base: Arguments) -> Any:
        return base["start_line"] - 1 + first_line if base.get("start_line") else UNSET

    def back_limit(base: Arguments) -> Any:
        if base.get("end_line"):
            return max(base["end_line"] - (base.get("start_line") or 1) + 1, 1)
        return base.get("max_lines") or UNSET

    return call_field(offset, "start_line", start, back_offset), call_field(limit, "end_line", end, back_limit)


def questions_field(multi: str) -> Field:
    """Questions with options; `multi`: what says that several may be chosen."""

    def into(question: Arguments) -> Arguments:
        found = {"question": question["question"], **pick_nonempty(question, "header"), **pick(question, multi=multi)}
        options = cast(list[Arguments], question.get("options") or [])
        if not options:
            return {**found, "kind": "text"}
        return {**found, "options": [pick_nonempty(one, "label", "description", "preview") for one in options]}

    return Field(native="questions", base="questions", to_base=lambda every: [into(one) for one in every])


def pick_nonempty(arguments: Arguments, *names: str) -> Arguments:
    return {name: arguments[name] for name in names if arguments.get(name)}


def questions_from_base(
    multi: str, *, required: tuple[str, ...] = (), allow_text: bool = False, option_extras: tuple[str, ...] = ()
) -> Callable[[Arguments], Arguments | None]:
    """Questions on the way back; None where one cannot be asked.

    `needed`: what must be there, empty where nobody has said it. `free`: a question may go without options. `more`: what else
    an option may have.
    """

    def back(base: Arguments) -> Arguments | None:
        said = [one(question) for question in cast(list[Arguments], base.get("questions") or [])]
        return {"questions": said} if 1 <= len(said) <= 4 and None not in said else None

    def one(question: Arguments) -> Arguments | None:
        kind = question.get("kind", "choice")
        options = cast(list[Arguments], question.get("options") or [])
        if kind == "yesno":
            options = [{"label": "yes"}, {"label": "no"}]
        if not (2 <= len(options) <= 4 or (allow_text and kind == "text")):
            return None
        empty: Arguments = {"header": "", "description": "", multi: False}
        usual = {name: value for name, value in empty.items() if name in required}
        described = pick(usual, "description")
        return {
            "question": question.get("question", ""),
            **pick(usual, "header", multi),
            **pick_nonempty(question, "header"),
            "options": [
                {**described, **pick(option, "label"), **pick_nonempty(option, "description", *option_extras)}
                for option in options
            ],
            **({multi: True} if question.get("multi") else {}),
        }

    return back


# ---- words


def render_data(renderer: Callable[[RenderContext, Arguments], str]) -> Renderer:
    """Words that are made from a result's data; the tool's own where there is none."""

    def made(said: RenderContext) -> str:
        data: Any = said.data
        return renderer(said, cast(Arguments, data)) if isinstance(data, dict) else said.text

    return made


# Words of failures, for `reworded`: where a pattern is looked for in single lines, and where a page is a `url`.
SINGLE_LINE_TERMS = {"set multiline to true": "look for a part of one line"}
SINGLE_URL_TERMS = {"target is empty": "url is empty", "target has over": "url has over", "queries must be": "query must be"}


def translate_terms(terms: Mapping[str, str]) -> Callable[[str], str]:
    """Puts a model's words in the place of ours; what stands in quotes or below the first line is of files, and stays."""
    ours = "|".join(map(re.escape, terms))
    pattern = re.compile(rf"(?<!\w)'[^'\n]*'|(?<![\w./-])(?:{ours})(?![\w/-]|\.\w)")

    def made(said: str) -> str:
        first, end, rest = said.partition("\n")
        return pattern.sub(lambda found: terms.get(found[0], found[0]), first) + end + rest

    return made


def translate_failure(terms: Mapping[str, str]) -> Renderer:
    """A failure as the base tool says it, with its parameters and tools under the names that the model knows."""
    change = translate_terms(terms)
    return lambda said: change(said.text)


def native_argument(context: RenderContext, native: str, base: str = "path") -> str:
    """A path as the model gave it."""
    return str(context.native.get(native) or context.base.get(base) or ".")


def plural(count: int, singular: str, plural_form: str = "") -> str:
    """`1 match`, `2 matches`."""
    return f"{count} {singular if count == 1 else plural_form or singular + 's'}"


def number_lines(lines: Iterable[str], first_line: int, template: str) -> str:
    """Lines with their numbers, by a form such as '{}: {}'."""
    return "\n".join(template.format(number, line) for number, line in enumerate(lines, first_line))


def clip_lines(data: Arguments, max_bytes: int) -> Arguments:
    """What was read, with so many bytes of lines at most."""
    size = 0
    for count, line in enumerate(data["lines"]):
        size += len(line.encode("utf-8", "replace")) + 1
        if count and size > max_bytes:
            last = data["first"] + count - 1
            shown = {"lines": data["lines"][:count], "last": last, "next_line": last + 1}
            long = [line for line in data["long_lines"] if line <= last]
            return {**data, **shown, "long_lines": long, "partial": True, "truncated": True}
    return data


def is_missing(context: RenderContext) -> bool:
    """Whether what a call is about is not there."""
    return context.kind == "not_found" or context.text.startswith("there is no '")


def suggested_names(context: RenderContext) -> list[str]:
    """The names that a file which is not there may have been meant to have."""
    found = re.search(r": did you mean (.+)\?$", context.text)
    return re.findall(r"'([^']+)'", found[1]) if found else []


def edit_failure_reason(context: RenderContext) -> str:
    """Why nothing was replaced: not_found, ambiguous, identical, empty, placeholder; "" for another failure."""
    return str(getattr(context.details, "reason", ""))


def exited_nonzero(context: RenderContext) -> bool:
    """Whether a command has ended with an exit code: some harnesses call that an error."""
    data: Any = context.data
    return "exit_code" in (data or ()) and bool(data["exit_code"])


def format_matches(data: Arguments, *, absolute: bool = False, numbers: bool = True) -> Iterator[str]:
    """Lines as ripgrep prints them."""
    apart = bool(data["before"] or data["after"])
    last: tuple[str, int] | None = None
    for file in data["files"]:
        path = file["absolute" if absolute else "path"]
        for line in file["lines"]:
            if apart and last is not None and last != (path, line["line"] - 1):
                yield "--"
            last = (path, line["line"])
            mark = ":" if line["is_match"] else "-"
            yield f"{path}{mark}{line['line']}{mark}{line['text']}" if numbers else f"{path}{mark}{line['text']}"


def render_page(tool: str) -> Renderer:
    """A page of the web, and how to read on."""

    def words(said: RenderContext, data: Arguments) -> str:
        lines = [f"The server answered with status {data['status']}."] if data["status"] >= 400 else []
        lines += [f"Note: {note}." for note in data["notes"]]
        if data["question_lines"]:
            lines.append(f"Words of the prompt are in lines {', '.join(map(str, data['question_lines']))}.")
        lines += [""] if lines else []
        lines.append(data["text"] or "(The page has no text.)")
        for name, shown in (("start_line", data["next_line"]), ("start_char", data["next_char"])):
            if shown is not None:
                of = f"lines {data['start_line']}-{data['end_line']} of {data['total_lines']}"
                lines += ["", f"(These are {of}. Call {tool} with {name}={shown} to read on.)"]
                break
        return "\n".join(lines)

    return render_data(words)
