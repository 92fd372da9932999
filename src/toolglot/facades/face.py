"""A facade in use: which of its views a model sees, what its calls mean, how results read, and history in its words.

Laws: a call is checked in the model's own words, and means one call of one base tool. What the model said is kept as it said
it; what it meant is kept beside it. Tools that are not built in pass through unchanged. Whatever a table's function trips over
is an error that the model can read, or the base tool's own words: never more than that.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from logging import getLogger
from typing import Any

import msgspec
from msgspec.structs import replace

from toolglot.errors import ToolError
from toolglot.facades.select import bare_name
from toolglot.facades.view import Facade, Said, View, Words
from toolglot.losses import Loss, Repair
from toolglot.messages import Meant, Message, Text, ToolCall, ToolResult
from toolglot.request import ToolDefinition
from toolglot.schema.arguments import Misfit, Plain, explain, mended, read

__all__ = ["Face", "Meaning"]

log = getLogger("toolglot.facades")


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
        name = bare_name(model)
        self.views = tuple(
            view
            for view in facade.views
            if view.bases & self.bases and view.title not in self._taken and (not view.models or re.search(view.models, name))
        )

    @cached_property
    def _by_name(self) -> dict[str, View]:
        """Views by all names that a call may have. A tool that is shown under a name has it before an alias."""
        found = {alias: view for view in self.views for alias in (view.name, *view.aliases)}
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

    def shows(self, base: str) -> bool:
        """Whether a base tool is shown under its own name."""
        return base in self.facade.shows and all(view.title != base for view in self.views)

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which the model sees built-in tools."""
        return (*(view.title for view in self.views), *sorted(base for base in self.bases if self.shows(base)))

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
        """A result as this harness says it. `call`: as the model made it; `arguments`: as the base tool got them."""
        result = replace(result, name=call.name)
        view = self._view(call)
        if view is None:
            return result
        native = self._native(view, call)
        try:
            case = view.case(native)
        except ToolError:
            return result
        words = (case.failure or self.facade.failure) if result.is_error else case.result
        if words is None:
            return result
        said = Said(
            native=native,
            base=arguments,
            text=result.text,
            data=result.data,
            kind=(result.error_kind or "execution") if result.is_error else None,
            details=details,
        )
        text = self._text(words, said, view)
        if text is None:
            return result
        media = tuple(block for block in result.content if not isinstance(block, Text))
        result = replace(result, content=(Text(text), *media))
        if case.fails is not None and not result.is_error and case.fails(said):
            return replace(result, is_error=True, error_kind="execution")
        return result

    def _native(self, view: View, call: ToolCall) -> dict[str, Any]:
        """The arguments as the model gave them, mended where that is possible."""
        given = call.arguments if call.arguments is not None else {"input": call.raw or ""}
        try:
            return {**given, **self._checked(view, call)[0]}
        except ToolError:
            return given

    def _text(self, words: Words, said: Said, view: View) -> str | None:
        """What the words are; None where they cannot be found: the base tool has said it too."""
        try:
            return words(said)
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
        sayings = [(view, *said) for view in self.views if (said := self._said(view, meant)) is not None]
        if not sayings:
            return call if _is_itself(call, meant) else ToolCall(call.id, meant.tool, meant.arguments, meant=meant)
        view, native, losses = min(sayings, key=lambda saying: len(saying[2]))
        lost.update(dict.fromkeys(losses))
        if view.kind == "freeform":
            return ToolCall(call.id, view.name, None, str(native.get("input", "")), freeform=True, meant=meant)
        return ToolCall(call.id, view.name, native, namespace=view.namespace, meant=meant)

    def _said(self, view: View, meant: Meant) -> tuple[dict[str, Any], tuple[Loss, ...]] | None:
        try:
            return view.from_base(meant.tool, meant.arguments)
        except Exception as e:  # a saved conversation may hold anything
            log.warning("facade %s: a call of %s cannot be shown as %s: %r", self.facade.id, meant.tool, view.name, e)
            return None


def _title(call: ToolCall) -> str:
    return f"{call.namespace}.{call.name}" if call.namespace else call.name


def _only_base(view: View) -> str:
    """The base tool of a view that stands for one only, for whoever keeps count of failures."""
    return next(iter(view.bases)) if len(view.bases) == 1 else ""


def _is_itself(call: ToolCall, meant: Meant) -> bool:
    """Whether a call was made in our own words."""
    return call.name == meant.tool and call.arguments == meant.arguments
