"""A facade bound to one model: which tools it sees, what its calls mean, how results read, and history under its names.

A call is validated against the native schema and stands for one call of one base tool. What the model wrote is kept; the base
call is kept beside it. Base tools are the built-in ones, and those of the user that a custom facade names; all others pass
through unchanged. If a function of a table fails, the model reads an error, or the base tool's own text: nothing worse happens.
"""

import re
from collections.abc import Callable, Collection, Iterable
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps, json_type_name
from toolglot.common.loggers import get_logger
from toolglot.errors import ToolError, UnknownName
from toolglot.facades.catalog import BASE_TOOLS, strip_model_prefix
from toolglot.facades.equivalence import SUBSTITUTES, Arguments, alternatives
from toolglot.facades.validation import check_facade, is_bundled
from toolglot.facades.view import Facade, RenderContext, View
from toolglot.schema.arguments import InvalidArguments, Issue, SchemaBinder, explain_issues, read_arguments, repair_arguments
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

    The former are built-in tools, and those of the user that a custom facade names. `allowed`: those that may be used.
    """
    named = facade.base_tools if isinstance(facade, Facade) and not is_bundled(facade) else ()
    base_tools, other_names = list[str](), list[str]()
    for tool in tools:
        is_allowed, is_builtin = allowed is None or tool.name in allowed, BUILTIN_TAG in tool.tags
        if is_allowed and (is_builtin or (tool.name in named and not tool.namespace)):
            base_tools.append(tool.name)
        elif not is_builtin:
            other_names.append(tool.name)
    return base_tools, other_names


class BoundFacade:
    """A facade bound to one model and the base tools it may use.

    `base_tools`: those that are registered. `reserved_names`: names of other tools, which no view may have.
    """

    def __init__(self, facade: Facade, model: str, base_tools: Iterable[str], reserved_names: Iterable[str] = ()) -> None:
        self.facade, self.model = facade, model
        self._validators: dict[str, SchemaBinder] = {}
        self.base_tools = frozenset(base_tools)
        self._reserved_names = frozenset(reserved_names)
        self._is_bundled = is_bundled(facade)
        check_facade(facade, model, self.base_tools | self._reserved_names)
        name = strip_model_prefix(model)
        self._available_views = tuple(
            view
            for view in facade.views
            if any(case.base in self.base_tools for case in view.cases.values())
            and view.qualified_name not in self._reserved_names
            and (not view.models or re.search(view.models, name))
        )
        self.views = tuple(view for view in self._available_views if self._is_shown(view))

    def _is_shown(self, view: View) -> bool:
        """Whether the model sees a view. Its other forms are understood even if the form that it shows cannot run."""
        if view.hidden or not view.base_tools & self.base_tools:
            return False
        return "" not in view.cases or view.cases[""].base in self.base_tools

    @cached_property
    def _views_by_name(self) -> dict[str, View]:
        """Views by all names that a call may use. A visible name wins over an alias or a hidden view."""
        hidden = {view.qualified_name: view for view in self._available_views if not self._is_shown(view)}
        aliases = {alias: view for view in self._available_views for alias in (view.name, *view.aliases)}
        taken = self._reserved_names | self.visible_base_tools
        return {
            **{alias: view for alias, view in {**hidden, **aliases}.items() if alias not in taken},
            **{view.qualified_name: view for view in self.views},
        }

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model sees of the views."""
        return tuple(view.definition for view in self.views)

    def visible_tools(self, definitions: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """Tools as the model sees them: base tools under its own names, then all others unchanged."""
        others = (
            definition
            for definition in definitions
            if definition.name in self.visible_base_tools
            or (BUILTIN_TAG not in definition.tags and (definition.namespace or definition.name not in self.base_tools))
        )
        return (*self.definitions, *others)

    @cached_property
    def visible_base_tools(self) -> frozenset[str]:
        """Base tools that are shown under their own names: those without a view that the facade does not hide.

        Our own tables hide a tool because others do its work: it is shown after all if none of those is available.
        """
        covered = {base for view in self.views for base in view.base_tools}
        uncovered = self.base_tools - covered
        visible = uncovered.difference(self.facade.hides)
        usable = (visible | covered) & self.base_tools
        if self._is_bundled:
            visible |= {base for base in uncovered - visible if base in SUBSTITUTES and not SUBSTITUTES[base] & usable}
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
        # Many base names are English words: only those that this facade shows can be meant.
        shown = BASE_TOOLS.difference(self.facade.hides) - {base for view in views for base in view.base_tools}
        missing = ({view.qualified_name for view in views} | shown) - {*self.names}
        pattern = re.compile(rf"(?<![\w.`])(?:{'|'.join(map(re.escape, sorted(missing)))})(?!\w)") if missing else None
        sentences = re.split(r"(?<=\.) (?=[A-Z])", self.facade.note)
        return " ".join(sentence for sentence in sentences if pattern is None or not pattern.search(sentence))

    def native_names(self, base: str) -> tuple[str, ...]:
        """The names that the model has for a base tool; its own name if there are none."""
        names = tuple(view.qualified_name for view in self.views if base in view.base_tools)
        return names if names and base not in self.visible_base_tools else (base,)

    def shown_names(self, call: ToolCall) -> tuple[str, ...]:
        """The names, of those that the model sees, under which it could have made a call of a base tool."""
        view = self._views_by_name.get(_qualified_name(call))
        if view is not None and self._is_shown(view):
            return (view.qualified_name,)
        return self.native_names(base_call(self.interpret(call)).name)

    # ---- calls and their results

    def interpret(self, call: ToolCall) -> InterpretedCall:
        """What a call means, found out once: the base call, what was repaired, or why it cannot run.

        A call that was interpreted by another facade means what it meant there.
        """
        is_foreign = call.base_call is not None and call.base_call.facade != self.facade.id  # interpreted by another facade
        view = None if is_foreign else self._views_by_name.get(_qualified_name(call))
        if view is None:
            return self._interpret_base_call(call)
        native = call.arguments if call.arguments is not None else {"input": call.raw or ""}
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
        base_name = next(iter(view.base_tools)) if len(view.base_tools) == 1 else call.name
        base = ToolCall(call.id, base_name, call.arguments, call.raw, caller=call.caller)
        return InterpretedCall(call, base, error=error, render=partial(self._render_result, view, call, native))

    def _interpret_base_call(self, call: ToolCall) -> InterpretedCall:
        """A call under no name of this facade: of another facade, of a base tool under its own name, or of any other tool."""
        base_call = call.base_call
        if base_call is not None:
            is_same = (call.name, call.arguments) == (base_call.tool, base_call.arguments)
            base = call if is_same else ToolCall(call.id, base_call.tool, base_call.arguments, caller=call.caller)
            # No view renders the result: its data is for facades only.
            return InterpretedCall(
                call, base, render=lambda result, arguments, details: replace(result, name=call.name, data=None)
            )
        is_base_tool = call.name in self.base_tools and not call.namespace and call.name not in self._reserved_names
        # A harness refuses a name that it does not show; our own names are for models whose harness is not known.
        if is_base_tool and self.facade.provider and self._is_bundled and call.name not in self.visible_base_tools:
            message = f"There is no such tool: {UnknownName('tool', call.name, self.visible_names).hint}"
            error = ToolError(message, kind="not_found", code="unknown_tool", tool=call.name)
            return InterpretedCall(call, call, error=error, render=partial(self._render_failure, call.name, {}))
        if is_base_tool and call.arguments is not None:
            return InterpretedCall(replace(call, base_call=BaseCall(call.name, call.arguments, self.facade.id)), call)

        def render(result: ToolResult, arguments: Arguments, details: Any) -> ToolResult:
            if result.error_code != "unknown_tool":  # a tool of the user, whose results are not ours to word
                return replace(result, name=call.name)
            return self._render_failure(_qualified_name(call), call.arguments or {}, result, arguments, details)

        return InterpretedCall(call, call, render=render)

    def _validate(self, view: View, call: ToolCall) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """The arguments of a call, repaired and checked against the native schema. Raises ToolError."""
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
            message = explain_issues(view.definition, e.issues)
            raise ToolError(message, kind="validation", code="invalid_arguments", details=e.issues) from None
        unknown = [name for name in arguments if name not in binder.parameter_names]
        if unknown and self.facade.refuses_unknown_parameters:
            issues = [Issue(f"$.{name}", "is not a parameter", "additionalProperties", [name]) for name in unknown]
            raise ToolError(
                explain_issues(view.definition, issues), kind="validation", code="invalid_arguments", details=issues
            )
        native = {
            name: value for name, value in arguments.items() if name in binder.parameter_names and name not in view.ignored
        }
        ignored = (Repair(f"parameter {name!r}", view.name, "there is no such parameter; it was ignored") for name in unknown)
        return native, (*repairs, *ignored)

    def _render_result(
        self, view: View, call: ToolCall, native: Arguments, result: ToolResult, arguments: Arguments, details: Any
    ) -> ToolResult:
        """A result as this harness words it. `native`: the arguments of the model; `arguments`: those of the base tool.

        The base tool's data is for rendering only: the model reads the text, and what its vendor wants beside it.
        """
        name = call.name
        try:
            case = view.find_case(native)
        except Exception as e:
            if not isinstance(e, ToolError) and result.error_kind != "validation":  # invalid arguments may lack anything
                log.warning("facade %s: no case fits a call of %s: %r", self.facade.id, view.name, e)
            return self._render_failure(name, native, result, arguments, details)
        plain, text = replace(result, name=name, data=None), result.text
        is_error = result.is_error and result.error_code not in case.successes
        if isinstance(details, InvalidArgument):  # called by the name that the model knows
            text = f"{view.native_name(case, details.parameter)} {details.problem}"
        context = self._make_context(name, native, replace(result, is_error=is_error), text, arguments, details)
        if case.native_data is not None:
            plain = replace(plain, data=self._call_table(case.native_data, context, _require_json))
        if case.script_value is not None and call.caller and not is_error:
            plain = replace(plain, data=self._call_table(case.script_value, context, _require_json))
        render = (case.failure or self.facade.failure) if is_error else case.result
        rendered = self._call_table(render, context, _require_text) if render is not None else None
        if rendered is not None or text != result.text:
            media = tuple(block for block in result.content if not isinstance(block, Text))
            texts = () if rendered == "" and media else (Text(text if rendered is None else rendered),)
            plain = replace(plain, content=(*texts, *media), is_rendered=True)
        if result.is_error and not is_error and rendered is not None:
            return replace(plain, is_error=False, error_kind=None, error_code="")
        if case.is_failure is not None and not result.is_error and self._call_table(case.is_failure, context, bool):
            return replace(plain, is_error=True, error_kind="execution")
        return plain

    def _render_failure(
        self, name: str, native: Arguments, result: ToolResult, arguments: Arguments, details: Any
    ) -> ToolResult:
        """A failure that no case renders: an unknown tool, or arguments of which nobody can say what they mean."""
        plain = replace(result, name=name, data=None)
        if self.facade.failure is None or not result.is_error:
            return plain
        context = self._make_context(name, native, result, result.text, arguments, details)
        rendered = self._call_table(self.facade.failure, context, _require_text)
        return plain if rendered is None else replace(plain, content=(Text(rendered),), is_rendered=True)

    def _make_context(
        self, name: str, native: Arguments, result: ToolResult, text: str, arguments: Arguments, details: Any
    ) -> RenderContext:
        return RenderContext(
            tool=name,
            visible_names=self.visible_names,
            native=dict(native),
            base=dict(arguments),
            text=text,
            data=result.data,
            kind=(result.error_kind or "execution") if result.is_error else None,
            code=result.error_code,
            details=details,
        )

    def _call_table(self, function: Callable[[RenderContext], Any], context: RenderContext, check: Callable[[Any], Any]) -> Any:
        """What a table's function returns; None if it fails: the base tool's text remains."""
        try:
            return check(function(context))
        except Exception as e:
            if context.kind != "validation":  # invalid arguments may lack anything
                log.warning("facade %s: the result of %s cannot be rendered: %r", self.facade.id, context.tool, e)
            return None

    # ---- history

    def render_message(self, message: Message, *, is_own: bool, losses: dict[Loss, None] | None = None) -> Message:
        """A message with its calls under this facade's names.

        `is_own`: the present model wrote it, so it goes back unchanged. `losses` collects what its tools cannot express.
        """
        if is_own or message.role != "assistant":
            return message
        losses = losses if losses is not None else {}
        blocks = tuple(self._render_call(block, losses) if isinstance(block, ToolCall) else block for block in message.blocks)
        is_unchanged = all(new is old for new, old in zip(blocks, message.blocks, strict=True))
        return message if is_unchanged else replace(message, blocks=blocks)

    def _render_call(self, call: ToolCall, losses: dict[Loss, None]) -> ToolCall:
        """A call by another model under this one's names: by the view that loses least, else by a base tool."""
        base_call = call.base_call
        if base_call is None or (base_call.facade == self.facade.id and _qualified_name(call) in self._views_by_name):
            return call
        tool, arguments = base_call.tool, base_call.arguments
        alternative_calls = [] if tool in self.visible_base_tools else self._find_alternatives(tool, arguments)
        calls = [(tool, arguments), *alternative_calls]
        # A view of the tool itself comes before one of another tool that would have done the same.
        for candidates in ([call for call in calls if call[0] == tool], [call for call in calls if call[0] != tool]):
            expressions = [
                (view, *expression)
                for view in self.views
                for candidate in candidates
                if (expression := self._express_with_view(view, *candidate)) is not None
            ]
            if expressions:
                view, native, lost = min(expressions, key=lambda expression: len(expression[2]))
                losses.update(dict.fromkeys(lost))
                if view.kind == "freeform":
                    text = str(native.get("input", ""))
                    return ToolCall(call.id, view.name, None, text, freeform=True, base_call=base_call)
                return ToolCall(call.id, view.name, native, namespace=view.namespace, base_call=base_call)
        visible = (candidate for candidate in alternative_calls if candidate[0] in self.visible_base_tools)
        tool, arguments = next(visible, (tool, arguments))
        if tool not in self.visible_base_tools | self._reserved_names:
            loss = Loss(f"tool {tool!r}", self.facade.title, "this model has no tool for it; our own name is used")
            losses[loss] = None
        is_unchanged = (call.name, call.arguments) == (tool, arguments)
        return call if is_unchanged else ToolCall(call.id, tool, arguments, base_call=base_call)

    def _express_with_view(self, view: View, tool: str, arguments: Arguments) -> tuple[Arguments, tuple[Loss, ...]] | None:
        try:
            expression = view.from_base(tool, arguments)
            if expression is not None and not self._is_bundled:
                _require_json(expression[0])
            return expression
        except Exception as e:  # a saved conversation may hold anything
            log.warning("facade %s: a call of %s cannot be expressed as %s: %r", self.facade.id, tool, view.name, e)
            return None

    def _find_alternatives(self, tool: str, arguments: Arguments) -> list[tuple[str, Arguments]]:
        try:
            return list(alternatives(tool, arguments))
        except Exception as e:  # as above
            log.warning("facade %s: no alternatives to a call of %s: %r", self.facade.id, tool, e)
            return []


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{json_type_name(value)} is not a string")
    return value


def _require_json(value: Any) -> Any:
    dumps(value)
    return value


def _qualified_name(call: ToolCall) -> str:
    return f"{call.namespace}.{call.name}" if call.namespace else call.name
