"""Fields and predicates that several facade tables share. It names no harness.

A field maps one native parameter to one base parameter, both ways; see `toolglot.facades.view.Field`.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.view import Arguments, Case, Field, RenderContext, Renderer, View, omit
from toolglot.request import Schema

__all__ = [
    "QUERY_FIELD",
    "accepted_field",
    "call_field",
    "choice_field",
    "cwd_field",
    "default_field",
    "has_command",
    "has_single_query",
    "ignore_file_fields",
    "is_single_page",
    "line_range_fields",
    "pick",
    "questions_case",
    "replace_all_field",
    "simple_view",
    "to_milliseconds",
    "to_seconds",
    "todo_field",
]

MAX_TIMEOUT = 7200.0
"""Seconds that a command may take."""


def pick(arguments: Mapping[str, Any], *names: str, **renamed: str) -> Arguments:
    """The arguments of these names that are present; `new="old"` renames one."""
    wanted = {**{name: name for name in names}, **renamed}
    return {new: arguments[old] for new, old in wanted.items() if old in arguments}


def to_seconds(name: str, value: float, limit: float = MAX_TIMEOUT) -> float:
    """A timeout in milliseconds as seconds, at most `limit`. `name` is for the error. Raises ToolError."""
    if value <= 0:
        raise ToolError(f"{name} is {value:g}; give a number of milliseconds above 0", kind="validation")
    return min(value / 1000, limit)


def to_milliseconds(seconds: float) -> int | float:
    """Seconds as milliseconds: an integer where that is exact."""
    value = round(float(seconds) * 1000, 6)
    return int(value) if value.is_integer() else value


# ---- which base calls a native tool can express


def has_command(base: Arguments) -> object:
    """Whether a shell call has a command line. A program with an argument list is rewritten as one elsewhere."""
    return base.get("command")


def is_single_page(base: Arguments) -> bool:
    """Whether one page is opened, not several."""
    return isinstance(base.get("target"), str)


def has_single_query(min_length: int = 0) -> Callable[[Arguments], bool]:
    """Whether there is one query, of at least `min_length` characters."""

    def can_express(base: Arguments) -> bool:
        queries: list[str] = base.get("queries") or []
        return len(queries) == 1 and len(queries[0]) >= min_length

    return can_express


# ---- views and fields


def simple_view(
    name: str,
    description: str,
    parameters: Schema,
    base: str | Case,
    fields: tuple[Field | str, ...] = (),
    *,
    fixed: Arguments | None = None,
    to_base: Callable[[Arguments], Arguments] | None = None,
    from_base: Callable[[Arguments], Arguments | None] | None = None,
    can_express: Callable[[Arguments], object] | None = None,
    result: Renderer | None = None,
    failure: Renderer | None = None,
    is_failure: Callable[[RenderContext], bool] | None = None,
    **options: Any,
) -> View:
    """A view with a single case: one that is given, or that of a base tool with the arguments of `Case`."""
    if isinstance(base, str):
        base = Case(
            base=base,
            fields=fields,
            fixed=fixed or {},
            to_base=to_base,
            from_base=from_base,
            can_express=can_express,
            result=result,
            failure=failure,
            is_failure=is_failure,
        )
    return View(name=name, description=description, parameters=parameters, cases={"": base}, **options)


def accepted_field(native: str, base: str, to_base: Callable[[Any], Any] | None = None) -> Field:
    """A parameter that calls may have and that history never uses."""
    return Field(native, base, to_base=to_base, from_base=omit)


def call_field(native: str, base: str, to_base: Callable[[Arguments], Any], from_base: Callable[[Arguments], Any]) -> Field:
    """A parameter that is computed from all arguments of a call."""
    return Field(native, base, to_base=to_base, from_base=from_base, needs_all_arguments=True)


def default_field(native: str, base: str, native_default: Any, base_default: Any = UNSET) -> Field:
    """A parameter whose default differs: `native_default` is passed on when a call omits it.

    In history, an absent base value means `base_default`; UNSET omits the native parameter.
    """
    return call_field(
        native,
        base,
        lambda arguments: arguments.get(native, native_default),
        lambda arguments: base_default if arguments.get(base) is None else arguments[base],
    )


def choice_field(native: str, base: str, choices: Mapping[str, str], native_default: str, base_default: str) -> Field:
    """A parameter whose values have other names: native -> base."""
    names = {value: name for name, value in choices.items()}
    return call_field(
        native,
        base,
        lambda arguments: choices[arguments.get(native, native_default)],
        lambda arguments: names[arguments.get(base) or base_default],
    )


def cwd_field(native: str) -> Field:
    """The directory that a command runs in; the workspace root is expressed by omitting it."""
    return Field(native, "cwd", from_base=lambda directory: UNSET if directory == "." else directory)


def ignore_file_fields(options: dict[str, str]) -> tuple[Field, ...]:
    """`file_filtering_options`, an object of switches: names inside -> base parameters."""

    def read_option(native: str) -> Callable[[Arguments], Any]:
        return lambda arguments: cast(Arguments, arguments.get("file_filtering_options", {})).get(native, UNSET)

    def from_base(base: Arguments) -> Any:
        return {native: base[name] for native, name in options.items() if base.get(name) is not None} or UNSET

    return tuple(call_field("file_filtering_options", name, read_option(native), from_base) for native, name in options.items())


def replace_all_field(native: str) -> Field:
    """Whether every occurrence is replaced: a boolean here, "all" or "one" in the base tool."""
    flags = {"all": True, "one": False}
    return Field(
        native, "count", to_base=lambda every: "all" if every else "one", from_base=lambda count: flags.get(count, UNSET)
    )


QUERY_FIELD = Field("query", "queries", to_base=lambda query: [query], from_base=lambda queries: queries[0])
"""One search query, where the base tool takes several."""


def line_range_fields(tool: str, offset: str, limit: str, first_line: int) -> tuple[Field, Field]:
    """A first line and a number of lines, where the first line of a file is number `first_line`."""

    def start_line(native: Arguments) -> Any:
        return max(int(native[offset]) - first_line, 0) + 1 if offset in native else UNSET

    def end_line(native: Arguments) -> Any:
        if (count := native.get(limit)) is None:
            return UNSET
        if count < 1:
            raise ToolError(f"{tool}: {limit} is {count:g}; give 1 or more lines", kind="validation")
        start = start_line(native)
        return int(count) if start is UNSET else start + int(count) - 1

    def offset_from_base(base: Arguments) -> Any:
        return base["start_line"] - 1 + first_line if base.get("start_line") else UNSET

    def limit_from_base(base: Arguments) -> Any:
        if base.get("end_line"):
            return max(base["end_line"] - (base.get("start_line") or 1) + 1, 1)
        return base.get("max_lines") or UNSET

    return (
        call_field(offset, "start_line", start_line, offset_from_base),
        call_field(limit, "end_line", end_line, limit_from_base),
    )


# ---- plans and questions


def _no_defaults(item: Arguments, position: int) -> Arguments:
    return {}


def todo_field(
    native: str,
    text: str,
    *,
    done: str = "completed",
    keep_all_statuses: bool = False,
    extras: Mapping[str, str] | None = None,
    defaults: Callable[[Arguments, int], Arguments] = _no_defaults,
) -> Field:
    """The list of a plan.

    Args:
        native: The parameter with the list.
        text: The key of an item's text.
        done: The native status of a completed item.
        keep_all_statuses: Whether there are "cancelled" and "blocked"; elsewhere they become `done` and "pending".
        extras: More native keys -> base keys.
        defaults: The native extras of an item (in base form, with its position from 1) that has none; they are not read back.
    """
    nearest = {"completed": done} if keep_all_statuses else {"completed": done, "cancelled": done, "blocked": "pending"}

    def to_base(items: list[Arguments]) -> list[Arguments]:
        converted: list[Arguments] = []
        for position, item in enumerate(items, 1):
            base_item: Arguments = {"text": item[text], "status": "completed" if item["status"] == done else item["status"]}
            usual = defaults(base_item, position)
            for native_key, base_key in (extras or {}).items():
                if item.get(native_key) and item[native_key] != usual.get(native_key):
                    base_item[base_key] = item[native_key]
            converted.append(base_item)
        return converted

    def from_base(items: list[Arguments] | None) -> Any:
        if items is None:
            return UNSET
        return [
            {
                text: item["text"],
                "status": nearest.get(item["status"], item["status"]),
                **defaults(item, position),
                **{name: item[base] for name, base in (extras or {}).items() if item.get(base)},
            }
            for position, item in enumerate(items, 1)
        ]

    return Field(native, "items", to_base=to_base, from_base=from_base)


def _pick_nonempty(arguments: Arguments, *names: str) -> Arguments:
    return {name: arguments[name] for name in names if arguments.get(name)}


def questions_case(
    multi: str, result: Renderer, *, required: tuple[str, ...] = (), option_extras: tuple[str, ...] = ()
) -> Case:
    """A case of `ask_user` for 1 to 4 questions with 2 to 4 options each.

    Args:
        multi: The native flag that allows several choices.
        result: How the answers are rendered.
        required: Keys that every question (or option) must have; they are empty where nothing is known.
        option_extras: More keys that an option may have.
    """

    def question_to_base(question: Arguments) -> Arguments:
        base = {"question": question["question"], **_pick_nonempty(question, "header"), **pick(question, multi=multi)}
        options = cast(list[Arguments], question.get("options") or [])
        if not options:
            return {**base, "kind": "text"}
        return {**base, "options": [_pick_nonempty(option, "label", "description", "preview") for option in options]}

    def get_options(question: Arguments) -> list[Arguments]:
        if question.get("kind") == "yesno":
            return [{"label": "yes"}, {"label": "no"}]
        return cast(list[Arguments], question.get("options") or [])

    def can_express(base: Arguments) -> bool:
        questions = cast(list[Arguments], base.get("questions") or [])
        return 1 <= len(questions) <= 4 and all(2 <= len(get_options(question)) <= 4 for question in questions)

    empty = {name: value for name, value in {"header": "", "description": "", multi: False}.items() if name in required}

    def question_from_base(question: Arguments) -> Arguments:
        options = [
            {**pick(empty, "description"), **pick(option, "label"), **_pick_nonempty(option, "description", *option_extras)}
            for option in get_options(question)
        ]
        return {
            "question": question.get("question", ""),
            **pick(empty, "header", multi),
            **_pick_nonempty(question, "header"),
            "options": options,
            **({multi: True} if question.get("multi") else {}),
        }

    field = Field(
        "questions",
        "questions",
        to_base=lambda questions: [question_to_base(question) for question in questions],
        from_base=lambda questions: [question_from_base(question) for question in questions],
    )
    return Case(base="ask_user", fields=(field,), can_express=can_express, result=result)
