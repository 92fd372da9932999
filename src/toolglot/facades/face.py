"""A facade in use: which of its views a model sees, what its calls mean, how results read, and history in its words.

Laws: a call is checked in the model's own words, and means one call of one base tool. What the model said is kept as it said
it; what it meant is kept beside it. Tools that are not built in pass through unchanged. Whatever a table's function trips over
is an error that the model can read, or the base tool's own words: never more than that.
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from logging import getLogger
from typing import Any

import msgspec
from msgspec.structs import replace

from toolglot.errors import ToolError
from toolglot.facades.check import check_facade, is_ours
from toolglot.facades.plain import DOES_FOR, Arguments, otherwise
from toolglot.facades.select import FACADES, bare_name
from toolglot.facades.view import Facade, Said, View
from toolglot.jsontext import dumps, kind
from toolglot.losses import Loss, Repair
from toolglot.messages import Meant, Message, Text, ToolCall, ToolResult
from toolglot.request import BUILTIN, ToolDefinition
from toolglot.schema.arguments import Misfit, Plain, explain, mended, read

__all__ = ["Face", "Meaning"]

log = getLogger("toolglot.facades")

_Saying = tuple[View, Arguments, tuple[Loss, ...]]


class Meaning(msgspec.Struct, frozen=True):
    """A call in our words, and what was mended in the model's."""

    tool: str
    arguments: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


class Face:
    """A facade as one model sees it. `bases`: the built-in tools that there are; `others`: names that are taken."""

    def __init__(self, facade: Facade, model: str, bases: Iterable[str], others: Iterable[str] = ()) -> None:
        self.facade, self.model = facade, model
        self._binders: dict[str, Plain] = {}
        self.bases = frozenset(bases)
        self._taken = frozenset(others)
        self._ours = is_ours(facade)
        check_facade(facade, model, self.bases)
        name = bare_name(model)
        self._known = tuple(
            view
            for view in facade.views
            if self._is_there(view) and view.title not in self._taken and (not view.models or re.search(view.models, name))
        )
        self.views = tuple(view for view in self._known if not view.hidden)

    def _is_there(self, view: View) -> bool:
        """Whether there is a base tool for a view: for the form that it shows, where it takes several."""
        shown = view.cases.get("")
        return bool(view.bases & self.bases) and (shown is None or shown.base in self.bases)

    @cached_property
    def _by_name(self) -> dict[str, View]:
        """Views by all names that a call may have. A tool that is shown under a name has it before one that is not."""
        hidden = {view.title: view for view in self._known if view.hidden}
        found = {**hidden, **{alias: view for view in self._known for alias in (view.name, *view.aliases)}}
        shown = self._taken | (self.facade.shows & self.bases)
        return {
            **{alias: view for alias, view in found.items() if alias not in shown},
            **{view.title: view for view in self.views},
        }

    def _view(self, call: ToolCall) -> View | None:
        """The view that a call is of; what was said through another facade is of none."""
        if call.meant is not None and call.meant.facade != self.facade.id:
            return None
        return self._by_name.get(_title(call))

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model sees of the built-in tools."""
        return tuple(view.definition for view in self.views)

    def offered(self, definitions: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Tools as the model sees them: the built-in ones under its names for them, then all others as they are."""
        beside = (one for one in definitions if BUILTIN not in one.tags or self.shows(one.name))
        return (*self.definitions, *beside)

    def shows(self, base: str) -> bool:
        """Whether a base tool is shown under its own name."""
        return base in self._shown

    @cached_property
    def _shown(self) -> frozenset[str]:
        """What the facade shows; what somebody else's tool has taken the name of; and what no tool that is there does."""
        own, views = self.facade.shows & self.bases, [view for view in self.facade.views if not view.hidden]
        said = {base for view in self.views for base in view.bases}
        ousted = {base for view in views if view.title in self._taken for base in view.bases} - said
        ours = self.facade.id in FACADES  # whoever makes another one says what it shows
        left = self.bases - said if ours else ()
        needed = {base for base in left if base in DOES_FOR and not DOES_FOR[base] & (own | said) & self.bases}
        return frozenset((own | ousted | needed) & self.bases) - {view.title for view in self.views}

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which the model sees built-in tools."""
        return (*(view.title for view in self.views), *sorted(base for base in self.bases if self.shows(base)))

    def takes_text(self, name: str) -> bool:
        """Whether a call of this name is plain text."""
        view = self._by_name.get(name)
        return view is not None and view.kind == "freeform"

    @cached_property
    def note(self) -> str:
        """How to work with the tools: those sentences of the facade's note that name no tool which is not there."""
        gone = ({view.title for view in self.facade.views if not view.hidden} | self.facade.shows) - {*self.names}
        named = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(gone)))})(?!\w)") if gone else None
        sentences = re.split(r"(?<=\.) (?=[A-Z])", self.facade.note)
        return " ".join(one for one in sentences if named is None or not named.search(one))

    def names_of(self, base: str) -> tuple[str, ...]:
        """The names that the model has for a base tool; its own where there are none."""
        found = tuple(view.name for view in self.views if base in view.bases)
        return found if found and not self.shows(base) else (base,)

    # ---- calls

    def means(self, call: ToolCall) -> Meaning | None:
        """What a call means; None for a tool that is not of this facade. Raises ToolError, in the model's own words.

        A call that was understood through another facade means what it meant there.
        """
        view, meant = self._view(call), call.meant
        if view is None:
            return None if meant is None or _is_itself(call, meant) else Meaning(meant.tool, meant.arguments)
        native, repairs = self._checked(view, call)
        try:
            tool, arguments = view.to_base(native)
            if not self._ours:
                _json(arguments)
        except ToolError as e:
            e.tool = e.tool or _only_base(view)
            raise
        except Exception as e:  # a table's function met what no schema rules out
            log.warning("facade %s: %s cannot be understood: %r", self.facade.id, view.name, e)
            why = f"The call of {view.name} was not run: its arguments cannot be understood."
            raise ToolError(why, kind="validation", tool=_only_base(view)) from None
        return Meaning(tool, arguments, repairs)

    def _checked(self, view: View, call: ToolCall) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """The arguments of a call, mended and checked against the native schema. Raises ToolError."""
        if view.kind == "freeform" and call.arguments is None:
            return {"input": call.raw or ""}, ()
        binder = self._binders.get(view.title)
        if binder is None:
            binder = self._binders[view.title] = Plain(view.taken)
        try:
            given, repairs = read(call)
            if binder.fit(given) is None:
                given, _, more = mended(given, binder, view.name)
                repairs += more
        except Misfit as e:
            why = explain(view.definition, e.wrongs)
            raise ToolError(why, kind="validation", tool=_only_base(view), details=e.wrongs) from None
        strangers = [name for name in given if name not in binder.known]
        native = {name: value for name, value in given.items() if name in binder.known and name not in view.ignored}
        left = (Repair(f"parameter {name!r}", view.name, "there is none of this name; it was left out") for name in strangers)
        return native, (*repairs, *left)

    def understood(self, call: ToolCall) -> ToolCall:
        """The call with what it means beside it; a base tool under its own name means itself."""
        try:
            meaning = self.means(call)
        except ToolError:
            return call
        if meaning is not None:
            return replace(call, meant=Meant(meaning.tool, meaning.arguments, self.facade.id))
        if call.name in self.bases and not call.namespace and call.name not in self._taken and call.arguments is not None:
            return replace(call, meant=Meant(call.name, call.arguments, self.facade.id))
        return call

    # ---- results

    def worded(self, call: ToolCall, arguments: dict[str, Any], result: ToolResult, details: Any = None) -> ToolResult:
        """A result as this harness says it. `call`: as the model made it; `arguments`: as the base tool got them.

        Data of the base tool is for the words only: what the model is told is the text, and what its vendor wants beside it.
        """
        plain = replace(result, name=call.name, data=None)
        view = self._view(call)
        if view is None:
            return plain
        native = dict(self._native(view, call))
        try:
            case = view.case(native)
        except Exception as e:
            if not isinstance(e, ToolError) and result.error_kind != "validation":  # what was not checked may lack anything
                log.warning("facade %s: nothing says what a call of %s means: %r", self.facade.id, view.name, e)
            return plain
        said = Said(
            native=native,
            base=dict(arguments),
            text=result.text,
            data=result.data,
            kind=(result.error_kind or "execution") if result.is_error else None,
            details=details,
        )
        if case.data is not None:
            plain = replace(plain, data=self._made(case.data, said, view, _json))
        words = (case.failure or self.facade.failure) if result.is_error else case.result
        text = self._made(words, said, view, _text) if words is not None else None
        if text is not None:
            media = tuple(block for block in result.content if not isinstance(block, Text))
            plain = replace(plain, content=(Text(text), *media), worded=True)
        if case.fails is not None and not result.is_error and self._made(case.fails, said, view, bool):
            return replace(plain, is_error=True, error_kind="execution")
        return plain

    def _native(self, view: View, call: ToolCall) -> dict[str, Any]:
        """The arguments as the model gave them, mended where that is possible."""
        given = call.arguments if call.arguments is not None else {"input": call.raw or ""}
        try:
            return {**given, **self._checked(view, call)[0]}
        except ToolError:
            return given

    def _made(self, make: Callable[[Said], Any], said: Said, view: View, checked: Callable[[Any], Any]) -> Any:
        """What a table's function makes of a result; None where it trips: the base tool has said it too."""
        try:
            return checked(make(said))
        except Exception as e:
            if said.kind != "validation":  # what was not checked may lack anything
                log.warning("facade %s: the result of %s has no words of its own: %r", self.facade.id, view.name, e)
            return None

    # ---- history

    def shown(self, message: Message, *, own: bool, lost: dict[Loss, None] | None = None) -> Message:
        """A message with its calls under this facade's names. `own`: the present model made it: it stays as it was said.

        `lost` takes what this model's tools cannot say.
        """
        if own or message.role != "assistant":
            return message
        losses = lost if lost is not None else {}
        blocks = tuple(self._renamed(block, losses) if isinstance(block, ToolCall) else block for block in message.blocks)
        same = all(new is old for new, old in zip(blocks, message.blocks, strict=True))
        return message if same else replace(message, blocks=blocks)

    def _renamed(self, call: ToolCall, lost: dict[Loss, None]) -> ToolCall:
        """A call of another model in this one's words: the view that can say most of it, else our own name for it."""
        meant = call.meant
        if meant is None or (meant.facade == self.facade.id and _title(call) in self._by_name):
            return call
        found = self._saying(meant.tool, meant.arguments)
        if found is None:
            tool, arguments = self._in_our_words(meant)
            if not self.shows(tool):
                lost[_unsayable(tool, self.facade)] = None
            same = (call.name, call.arguments) == (tool, arguments)
            return call if same else ToolCall(call.id, tool, arguments, meant=meant)
        view, native, losses = found
        lost.update(dict.fromkeys(losses))
        if view.kind == "freeform":
            return ToolCall(call.id, view.name, None, str(native.get("input", "")), freeform=True, meant=meant)
        return ToolCall(call.id, view.name, native, namespace=view.namespace, meant=meant)

    def _in_our_words(self, meant: Meant) -> tuple[str, Arguments]:
        """A base tool that is shown under its own name and does the same; else the one that it was."""
        if self.shows(meant.tool):
            return meant.tool, meant.arguments
        others = self._otherwise(meant.tool, meant.arguments)
        return next((one for one in others if self.shows(one[0])), (meant.tool, meant.arguments))

    def _saying(self, tool: str, arguments: Arguments) -> _Saying | None:
        """The best way to say a base call: by a tool of this facade for it, else by one that does the same."""
        calls = [(tool, arguments), *(() if self.shows(tool) else self._otherwise(tool, arguments))]
        for same in (True, False):
            own = [call for call in calls if (call[0] == tool) is same]
            ways = [way for view in self.views for call in own if (way := self._said(view, *call)) is not None]
            if ways:
                return min(ways, key=lambda way: len(way[2]))
        return None

    def _said(self, view: View, tool: str, arguments: Arguments) -> _Saying | None:
        try:
            found = view.from_base(tool, arguments)
            if found is not None and not self._ours:
                _object(found[0])
        except Exception as e:  # a saved conversation may hold anything
            log.warning("facade %s: a call of %s cannot be shown as %s: %r", self.facade.id, tool, view.name, e)
            return None
        return None if found is None else (view, *found)

    def _otherwise(self, tool: str, arguments: Arguments) -> list[tuple[str, Arguments]]:
        try:
            return list(otherwise(tool, arguments))
        except Exception as e:  # as above
            log.warning("facade %s: a call of %s is like no other: %r", self.facade.id, tool, e)
            return []


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{kind(value)} came, not a text")
    return value


def _json(value: Any) -> Any:
    dumps(value)
    return value


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{kind(value)} came, not a dict of arguments")
    return _json(value)


def _title(call: ToolCall) -> str:
    return f"{call.namespace}.{call.name}" if call.namespace else call.name


def _unsayable(tool: str, facade: Facade) -> Loss:
    return Loss(f"tool {tool!r}", facade.title, "this model has no tool that says it; our own name stands")


def _only_base(view: View) -> str:
    """The base tool of a view that stands for one only, for whoever keeps count of failures."""
    return next(iter(view.bases)) if len(view.bases) == 1 else ""


def _is_itself(call: ToolCall, meant: Meant) -> bool:
    """Whether a call was made in our own words."""
    return call.name == meant.tool and call.arguments == meant.arguments
