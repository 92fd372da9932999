"""A facade bound to one model: which tools it sees, what its calls mean, how results read, and history under
its names.

A call is validated against the native schema and stands for one call of one base tool. What the model wrote
is kept; the base call is kept beside it. Base tools are the built-in ones, and those of the user that a
custom facade names; all others pass through unchanged. If a function of a table fails, the model reads an
error, or the base tool's own text: nothing worse happens.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps, json_type_name
from toolglot.common.loggers import get_logger
from toolglot.errors import ToolError, ToolErrorKind, UnknownName
from toolglot.facades.catalog import BASE_TOOLS, strip_model_prefix
from toolglot.facades.equivalence import SUBSTITUTES, Arguments, alternatives
from toolglot.facades.validation import check_facade, is_bundled
from toolglot.facades.view import Case, Facade, RenderContext, View
from toolglot.schema.arguments import (
    InvalidArguments,
    Issue,
    SchemaBinder,
    explain_issues,
    read_arguments,
    repair_arguments,
)
from toolglot.tools.calls import InterpretedCall, base_call
from toolglot.values.failures import InvalidArgument
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import BaseCall, Message, Text, ToolCall, ToolResult
from toolglot.values.request import BUILTIN_TAG, ToolDefinition

__all__ = ["BoundFacade", "split_base_tools"]

log = get_logger("toolglot.facades")


def split_base_tools(
    tools: Iterable[ToolDefinition], facade: Facade | str | None, allowed: Collection[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return the names of the tools that a facade may rename, and of those that it must not touch.

    The former are built-in tools, and those of the user that a custom facade names. `allowed`: those that may
    be used.
    """
    named_by_facade = frozenset[str]()
    if isinstance(facade, Facade) and not is_bundled(facade):
        named_by_facade = facade.base_tools
    base_tools: list[str] = []
    other_names: list[str] = []
    for tool in tools:
        is_allowed = allowed is None or tool.name in allowed
        is_builtin = BUILTIN_TAG in tool.tags
        is_named = tool.name in named_by_facade and not tool.namespace
        if is_allowed and (is_builtin or is_named):
            base_tools.append(tool.name)
        elif not is_builtin:
            other_names.append(tool.name)
    return base_tools, other_names


class BoundFacade:
    """A facade bound to one model and the base tools it may use.

    `base_tools`: those that are registered. `reserved_names`: names of other tools, which no view may have.
    """

    def __init__(
        self, facade: Facade, model: str, base_tools: Iterable[str], reserved_names: Iterable[str] = ()
    ) -> None:
        self.facade, self.model = facade, model
        self._validators: dict[str, SchemaBinder] = {}
        self.base_tools = frozenset(base_tools)
        self._reserved_names = frozenset(reserved_names)
        self._is_bundled = is_bundled(facade)
        check_facade(facade, model, self.base_tools | self._reserved_names)
        name = strip_model_prefix(model)
        self._available_views = tuple(view for view in facade.views if self._is_available(view, name))
        self.views = tuple(view for view in self._available_views if self._is_shown(view))

    def _is_available(self, view: View, model_name: str) -> bool:
        """Whether calls of a view can run: it is for this model, its name is free, and one of its tools is
        there.
        """
        if view.models and not re.search(view.models, model_name):
            return False
        if view.qualified_name in self._reserved_names:
            return False
        return any(case.base in self.base_tools for case in view.cases.values())

    def _is_shown(self, view: View) -> bool:
        """Whether the model sees a view.

        Its other forms are understood even if the form that it shows cannot run.
        """
        if view.hidden or not view.base_tools & self.base_tools:
            return False
        return "" not in view.cases or view.cases[""].base in self.base_tools

    @cached_property
    def _views_by_name(self) -> dict[str, View]:
        """Views by all names that a call may use. A visible name wins over an alias or a hidden view."""
        by_name: dict[str, View] = {}
        for view in self._available_views:
            if not self._is_shown(view):
                by_name[view.qualified_name] = view
        for view in self._available_views:
            by_name |= dict.fromkeys((view.name, *view.aliases), view)
        for name in self._reserved_names | self.visible_base_tools:
            by_name.pop(name, None)
        for view in self.views:
            by_name[view.qualified_name] = view
        return by_name

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model sees of the views."""
        return tuple(view.definition for view in self.views)

    def visible_tools(self, definitions: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Return tools as the model sees them: base tools under its own names, then all others unchanged."""
        others = (definition for definition in definitions if self._keeps_its_name(definition))
        return (*self.definitions, *others)

    def _keeps_its_name(self, definition: ToolDefinition) -> bool:
        """Whether the model sees a tool as it is."""
        if definition.name in self.visible_base_tools:
            return True
        if BUILTIN_TAG in definition.tags:
            return False
        return bool(definition.namespace) or definition.name not in self.base_tools

    @cached_property
    def visible_base_tools(self) -> frozenset[str]:
        """Base tools that are shown under their own names: those without a view that the facade does not
        hide.

        Our own tables hide a tool because others do its work: it is shown after all if none of those is
        available.
        """
        covered = {base for view in self.views for base in view.base_tools}
        uncovered = self.base_tools - covered
        visible = {*uncovered.difference(self.facade.hides)}
        usable = (visible | covered) & self.base_tools
        if self._is_bundled:
            for base in uncovered - visible:
                substitutes = SUBSTITUTES.get(base)
                if substitutes is not None and not substitutes & usable:
                    visible.add(base)
        return frozenset(visible) - {view.qualified_name for view in self.views}

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which the model sees base tools."""
        return (*(view.qualified_name for view in self.views), *sorted(self.visible_base_tools))

    @property
    def visible_names(self) -> tuple[str, ...]:
        """All names under which the model sees tools, also those that are not base tools."""
        return (*self.names, *sorted(self._reserved_names))

    def is_freeform(self, name: str) -> bool:
        """Whether a call of this name is plain text."""
        view = self._views_by_name.get(name)
        return view is not None and view.kind == "freeform"

    @cached_property
    def note(self) -> str:
        """How to work with the tools: the sentences of the facade's note that name no missing tool."""
        views = [view for view in self.facade.views if not view.hidden]
        with_view = {base for view in views for base in view.base_tools}
        # Many base names are English words: only those that this facade shows can be meant.
        names = {view.qualified_name for view in views} | (
            BASE_TOOLS.difference(self.facade.hides) - with_view
        )
        missing = names.difference(self.names)
        if not missing:
            return self.facade.note
        mention = re.compile(rf"(?<![\w.`])(?:{'|'.join(map(re.escape, sorted(missing)))})(?!\w)")
        sentences = re.split(r"(?<=\.) (?=[A-Z])", self.facade.note)
        return " ".join(sentence for sentence in sentences if not mention.search(sentence))

    def native_names(self, base: str) -> tuple[str, ...]:
        """Return the names that the model has for a base tool; its own name if there are none."""
        if base in self.visible_base_tools:
            return (base,)
        names = tuple(view.qualified_name for view in self.views if base in view.base_tools)
        return names or (base,)

    def shown_names(self, call: ToolCall) -> tuple[str, ...]:
        """Return the names, of those that the model sees, under which it could have made a call of a base
        tool.
        """
        view = self._views_by_name.get(_qualified_name(call))
        if view is not None and self._is_shown(view):
            return (view.qualified_name,)
        return self.native_names(base_call(self.interpret(call)).name)

    # ---- calls and their results

    def interpret(self, call: ToolCall) -> InterpretedCall:
        """Return what a call means: the base call, what was repaired, or why it cannot run.

        A call that was interpreted by another facade means what it meant there.
        """
        # interpreted by another facade
        is_foreign = call.base_call is not None and call.base_call.facade != self.facade.id
        view = None if is_foreign else self._views_by_name.get(_qualified_name(call))
        if view is None:
            return self._interpret_base_call(call)
        native = call.arguments
        if native is None:
            native = {"input": call.raw or ""}
        try:
            validated, repairs = self._validate(view, call)
            native = {**native, **validated}
            tool, arguments = view.map_call(validated)
            if not self._is_bundled:
                _require_json(arguments)
        except ToolError as e:
            error = e
        except Exception as e:  # a table's function met what no schema rules out
            log.warning("facade %s: a call of %s cannot be interpreted: %r", self.facade.id, view.name, e)
            error = view.unreadable_call()
        else:
            return InterpretedCall(
                replace(call, base_call=BaseCall(tool, arguments, self.facade.id)),
                ToolCall(call.id, tool, arguments, caller=call.caller),
                repairs,
                render=partial(self._render_result, view, call, native),
            )
        # A failed call counts for the tool that it is about, so that repetitions are noticed.
        error.tool = call.name
        base_name = call.name
        if len(view.base_tools) == 1:
            (base_name,) = view.base_tools
        base = ToolCall(call.id, base_name, call.arguments, call.raw, caller=call.caller)
        return InterpretedCall(
            call, base, error=error, render=partial(self._render_result, view, call, native)
        )

    def _interpret_base_call(self, call: ToolCall) -> InterpretedCall:
        """Return what a call means that has no name of this facade: it is another facade's, or of a tool
        under its own name.
        """
        if call.base_call is not None:
            return self._interpret_foreign_call(call, call.base_call)
        is_base_tool = (
            call.name in self.base_tools and not call.namespace and call.name not in self._reserved_names
        )
        # A harness refuses a name that it does not show; our own names are for models whose harness is not
        # known.
        refuses_base_names = self._is_bundled and self.facade.provider != ""
        if is_base_tool and refuses_base_names and call.name not in self.visible_base_tools:
            message = f"There is no such tool: {UnknownName('tool', call.name, self.visible_names).hint}"
            error = ToolError(message, kind="not_found", code="unknown_tool", tool=call.name)
            return InterpretedCall(
                call, call, error=error, render=partial(self._render_failure, call.name, {})
            )
        if is_base_tool and call.arguments is not None:
            return InterpretedCall(
                replace(call, base_call=BaseCall(call.name, call.arguments, self.facade.id)), call
            )

        def render(result: ToolResult, arguments: Arguments, details: Any) -> ToolResult:
            if result.error_code != "unknown_tool":  # a tool of the user, whose results are not ours to word
                return replace(result, name=call.name)
            return self._render_failure(
                _qualified_name(call), call.arguments or {}, result, arguments, details
            )

        return InterpretedCall(call, call, render=render)

    def _interpret_foreign_call(self, call: ToolCall, base_call: BaseCall) -> InterpretedCall:
        """Return what a call means that another facade has interpreted."""
        base = call
        if (call.name, call.arguments) != (base_call.tool, base_call.arguments):
            base = ToolCall(call.id, base_call.tool, base_call.arguments, caller=call.caller)

        def render(result: ToolResult, arguments: Arguments, details: Any) -> ToolResult:
            # no view renders it, and its data is for facades only
            return replace(result, name=call.name, data=None)

        return InterpretedCall(call, base, render=render)

    def _validate(self, view: View, call: ToolCall) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """Return the arguments of a call, repaired and checked against the native schema.

        Raises ToolError.
        """
        if view.kind == "freeform" and call.arguments is None:
            return {"input": call.raw or ""}, ()
        binder = self._validators.get(view.qualified_name)
        if binder is None:
            binder = self._validators[view.qualified_name] = SchemaBinder(view.accepted_schema)
        try:
            arguments, repairs = read_arguments(call)
            if binder.bind(arguments) is None:
                arguments, _, more_repairs = repair_arguments(arguments, binder, view.name)
                repairs += more_repairs
        except InvalidArguments as e:
            raise _invalid_arguments(view, e.issues) from None
        native: dict[str, Any] = {}
        unknown: list[str] = []
        for name, value in arguments.items():
            if name not in binder.parameter_names:
                unknown.append(name)
            elif name not in view.ignored:
                native[name] = value
        if unknown and self.facade.refuses_unknown_parameters:
            issues = [
                Issue(f"$.{name}", "is not a parameter", "additionalProperties", [name]) for name in unknown
            ]
            raise _invalid_arguments(view, issues)
        ignored = (
            Repair(f"parameter {name!r}", view.name, "there is no such parameter; it was ignored")
            for name in unknown
        )
        return native, (*repairs, *ignored)

    def _render_result(
        self,
        view: View,
        call: ToolCall,
        native: Arguments,
        result: ToolResult,
        arguments: Arguments,
        details: Any,
    ) -> ToolResult:
        """Return a result as this harness words it.

        The base tool's data is for rendering only: the model reads the text, and what its vendor wants beside
        it.

        Args:
            view: What the model called.
            call: Its call.
            native: The arguments of the model.
            result: The result of the base tool.
            arguments: Those that the base tool had.
            details: Why it failed.
        """
        try:
            case = view.find_case(native)
        except Exception as e:
            # invalid arguments may lack anything
            is_expected = isinstance(e, ToolError) or result.error_kind == "validation"
            if not is_expected:
                log.warning("facade %s: no case fits a call of %s: %r", self.facade.id, view.name, e)
            return self._render_failure(call.name, native, result, arguments, details)
        is_error = result.is_error and result.error_code not in case.successes
        text = result.text
        if isinstance(details, InvalidArgument):  # called by the name that the model knows
            text = f"{view.native_name(case, details.parameter)} {details.problem}"
        context = self._make_context(
            call.name, native, replace(result, is_error=is_error), text, arguments, details
        )
        plain = replace(
            result, name=call.name, data=self._make_data(case, context, is_from_code=bool(call.caller))
        )

        render = case.result
        if is_error:
            render = case.failure or self.facade.failure
        rendered: str | None = None
        if render is not None:
            rendered = self._call_table(render, context, _require_text)
        if rendered is not None:
            plain = _replace_text(plain, rendered)
        elif text != result.text:
            plain = _replace_text(plain, text)

        if result.is_error and not is_error and rendered is not None:
            return replace(plain, is_error=False, error_kind=None, error_code="")
        if case.is_failure is None or result.is_error:
            return plain
        if self._call_table(case.is_failure, context, bool):
            return replace(plain, is_error=True, error_kind="execution")
        return plain

    def _make_data(self, case: Case, context: RenderContext, *, is_from_code: bool) -> Any:
        """Return what the vendor wants beside the text, or what the code gets that made the call; None if
        they want nothing.
        """
        make = case.native_data
        if is_from_code and case.script_value is not None and context.kind is None:
            make = case.script_value
        return None if make is None else self._call_table(make, context, _require_json)

    def _render_failure(
        self, name: str, native: Arguments, result: ToolResult, arguments: Arguments, details: Any
    ) -> ToolResult:
        """Return a failure that no case renders: an unknown tool, or arguments of which nobody can say what
        they mean.
        """
        plain = replace(result, name=name, data=None)
        if self.facade.failure is None or not result.is_error:
            return plain
        context = self._make_context(name, native, result, result.text, arguments, details)
        rendered = self._call_table(self.facade.failure, context, _require_text)
        return plain if rendered is None else replace(plain, content=(Text(rendered),), is_rendered=True)

    def _make_context(
        self, name: str, native: Arguments, result: ToolResult, text: str, arguments: Arguments, details: Any
    ) -> RenderContext:
        kind: ToolErrorKind | None = None
        if result.is_error:
            kind = result.error_kind or "execution"
        return RenderContext(
            tool=name,
            visible_names=self.visible_names,
            native=dict(native),
            base=dict(arguments),
            text=text,
            data=result.data,
            kind=kind,
            code=result.error_code,
            details=details,
        )

    def _call_table(
        self, function: Callable[[RenderContext], Any], context: RenderContext, check: Callable[[Any], Any]
    ) -> Any:
        """Return what a table's function returns; None if it fails: the base tool's text remains."""
        try:
            return check(function(context))
        except Exception as e:
            if context.kind != "validation":  # invalid arguments may lack anything
                log.warning(
                    "facade %s: the result of %s cannot be rendered: %r", self.facade.id, context.tool, e
                )
            return None

    # ---- history

    def render_message(
        self, message: Message, *, is_own: bool, losses: dict[Loss, None] | None = None
    ) -> Message:
        """Return a message with its calls under this facade's names.

        `is_own`: the present model wrote it, so it goes back unchanged. `losses` collects what its tools
        cannot express.
        """
        if is_own or message.role != "assistant":
            return message
        losses = losses if losses is not None else {}
        blocks = list(message.blocks)
        is_changed = False
        for index, block in enumerate(blocks):
            if isinstance(block, ToolCall):
                blocks[index] = self._render_call(block, losses)
                is_changed |= blocks[index] is not block
        return replace(message, blocks=tuple(blocks)) if is_changed else message

    def _render_call(self, call: ToolCall, losses: dict[Loss, None]) -> ToolCall:
        """Return a call by another model under this one's names: by the view that loses least, else by a base
        tool.
        """
        base_call = call.base_call
        if base_call is None:
            return call
        if base_call.facade == self.facade.id and _qualified_name(call) in self._views_by_name:
            return call
        tool, arguments = base_call.tool, base_call.arguments
        alternative_calls: list[tuple[str, Arguments]] = []
        if tool not in self.visible_base_tools:
            alternative_calls = self._find_alternatives(tool, arguments)
        # A view of the tool itself comes before one of another tool that would have done the same.
        own_calls = [
            (tool, arguments),
            *(candidate for candidate in alternative_calls if candidate[0] == tool),
        ]
        other_calls = [candidate for candidate in alternative_calls if candidate[0] != tool]
        expression = self._express(own_calls) or self._express(other_calls)
        if expression is not None:
            view, native, lost = expression
            losses.update(dict.fromkeys(lost))
            if view.kind == "freeform":
                text = str(native.get("input", ""))
                return ToolCall(call.id, view.name, None, text, freeform=True, base_call=base_call)
            return ToolCall(call.id, view.name, native, namespace=view.namespace, base_call=base_call)

        visible = (candidate for candidate in alternative_calls if candidate[0] in self.visible_base_tools)
        tool, arguments = next(visible, (tool, arguments))
        if tool not in self.visible_base_tools | self._reserved_names:
            loss = Loss(
                f"tool {tool!r}", self.facade.title, "this model has no tool for it; our own name is used"
            )
            losses[loss] = None
        is_unchanged = (call.name, call.arguments) == (tool, arguments)
        return call if is_unchanged else ToolCall(call.id, tool, arguments, base_call=base_call)

    def _express(
        self, calls: Iterable[tuple[str, Arguments]]
    ) -> tuple[View, Arguments, tuple[Loss, ...]] | None:
        """Return the view that expresses one of these base calls with the fewest losses, and how; None if
        there is none.
        """
        expressions: list[tuple[View, Arguments, tuple[Loss, ...]]] = []
        for view in self.views:
            for tool, arguments in calls:
                expression = self._express_with_view(view, tool, arguments)
                if expression is not None:
                    expressions.append((view, *expression))
        return min(expressions, key=lambda expression: len(expression[2]), default=None)

    def _express_with_view(
        self, view: View, tool: str, arguments: Arguments
    ) -> tuple[Arguments, tuple[Loss, ...]] | None:
        try:
            expression = view.from_base(tool, arguments)
            if expression is not None and not self._is_bundled:
                _require_json(expression[0])
            return expression
        except Exception as e:  # a saved conversation may hold anything
            log.warning(
                "facade %s: a call of %s cannot be expressed as %s: %r", self.facade.id, tool, view.name, e
            )
            return None

    def _find_alternatives(self, tool: str, arguments: Arguments) -> list[tuple[str, Arguments]]:
        try:
            return list(alternatives(tool, arguments))
        except Exception as e:  # as above
            log.warning("facade %s: no alternatives to a call of %s: %r", self.facade.id, tool, e)
            return []


def _replace_text(result: ToolResult, text: str) -> ToolResult:
    """Return a result with another text; its media stay, alone if the text is empty."""
    media = tuple(block for block in result.content if not isinstance(block, Text))
    if media and not text:
        return replace(result, content=media, is_rendered=True)
    return replace(result, content=(Text(text), *media), is_rendered=True)


def _invalid_arguments(view: View, issues: Sequence[Issue]) -> ToolError:
    message = explain_issues(view.definition, issues)
    return ToolError(message, kind="validation", code="invalid_arguments", details=issues)


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{json_type_name(value)} is not a string")
    return value


def _require_json(value: Any) -> Any:
    dumps(value)
    return value


def _qualified_name(call: ToolCall) -> str:
    return f"{call.namespace}.{call.name}" if call.namespace else call.name
