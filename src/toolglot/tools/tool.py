"""A tool: what a model sees of it, its function, and how it may be run.

Invariants: `@tool` costs microseconds; schema and binder are built once, when first needed. A call does no
reflection. A decorated function still works as before: calling the Tool calls the function.
"""

import inspect
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial, update_wrapper
from types import AsyncGeneratorType, FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    overload,
)
from weakref import WeakValueDictionary

import msgspec

from toolglot.common.jsontext import dumps_text
from toolglot.common.option_signatures import show_options
from toolglot.common.textutil import truncate
from toolglot.common.type_parameters import Needs, NeedsOf, Parameters, Returned
from toolglot.common.value_checks import as_items
from toolglot.errors import InvalidTool, ToolError, ToolglotError, UnknownName, UsageError
from toolglot.schema.arguments import (
    ArgumentBinder,
    InvalidArguments,
    SchemaBinder,
    deep_copy,
    explain_issues,
    find_issues,
    read_arguments,
    repair_arguments,
)
from toolglot.schema.derive import derive
from toolglot.schema.docstrings import parse_docstring
from toolglot.schema.output import OutputType
from toolglot.schema.signatures import evaluate_annotations, function_doc, function_name, list_parameters
from toolglot.tools.config import ANY_EFFECT, Rate
from toolglot.tools.context import CallSuspended, Context, answer_elsewhere
from toolglot.tools.options import Action, Describe, SchemaToolOptions, Scope, ToolOptions, find_advice
from toolglot.tools.results import collect_async_generator, collect_generator
from toolglot.values.approvals import Effect
from toolglot.values.definitions import MCP_TAG
from toolglot.values.losses import Repair
from toolglot.values.messages import ToolCall
from toolglot.values.request import ToolDefinition, ToolExample

__all__ = [
    "BoundArguments",
    "PlainFunction",
    "Tool",
    "tool",
    "tool_from_definition",
    "tool_from_schema",
    "tools_of",
]

Function = Callable[..., Any]
Reopen = Callable[[Any, Any, str], Awaitable[CallSuspended]]
"""(saved state, PreparedCall, why it cannot be trusted)."""
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Value = TypeVar("_Value", covariant=True)
MAX_NAME = 1000
_CONTAINERS = frozenset({dict, list})
_CO_VARARGS = 0x04  # flag of code objects


class BoundArguments(msgspec.Struct, frozen=True, gc=False):
    """The arguments of a call as JSON, as the function's keyword arguments, and what was repaired."""

    arguments: dict[str, Any]
    values: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


class _ToolSpec(msgspec.Struct, frozen=True):
    """Everything derived from a tool's function, on first use."""

    definition: ToolDefinition
    binder: ArgumentBinder
    context_parameter: str | None = None
    positional: tuple[str, ...] = ()
    sole_parameter: str = ""
    """The single parameter that receives all arguments as a dict, or the text of a freeform call."""


class Tool(Generic[Parameters, Returned, Needs]):
    """A function that a model may call. It can be called like the function itself, with the same types.

    `Tool[Parameters, Returned, Needs]`: the types of a call, and of the data that its `Context[Needs]` has. The last may be
    left out; it is known to type checkers if the Context is one of the first three parameters, or is called `context`.

    Args:
        function: The function.
        definition: What a model sees; by default it is derived from the function and the options.
        names: Local names used in string annotations.
        options: See `ToolOptions`.
    """

    # Defaults of the options that are attributes.
    inline: bool = False
    idempotent: bool = False
    polls: bool = False
    ordered: bool = False
    timeout: float | None = None
    max_uses: int | None = None
    rate: Rate | None = None
    approval: bool | None = None
    quiet: bool | Callable[[dict[str, Any]], bool] = False
    confined: bool | Callable[[dict[str, Any]], bool] = False
    always_ask: Describe | None = None
    action: Action | None = None
    verb: str | None = None
    scope: Scope | None = None
    target: Describe | None = None
    preview: Describe | None = None
    max_result: int | None = None

    @show_options(ToolOptions)
    def __init__(
        self,
        function: Callable[Parameters, Returned],
        *,
        definition: ToolDefinition | None = None,
        names: Mapping[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        self._binding: type[Any] = type(function)
        if isinstance(function, (staticmethod, classmethod)):
            function = cast(Any, function).__func__
        if not callable(function):
            hint = ""
            if isinstance(function, str):
                hint = "; a plug-in's tools are load_plugin('tools', NAME)"
            elif hasattr(function, "as_tool"):
                raise InvalidTool("an agent is not a tool by itself: pass agent.as_tool(name, description)")
            elif hasattr(function, "tools"):  # builtins(…) or servers, inside a list of tools
                raise InvalidTool(f"{type(function).__name__} is not a tool, but has tools: pass its .tools")
            raise InvalidTool(f"{function!r:.80} cannot be a tool: it cannot be called{hint}")
        _check_options(options, definition, function)
        for option in _ITERABLES & options.keys():
            options[option] = tuple(as_items(options[option]))  # an iterator can be read only once
        self._options: dict[str, Any] = {"definition": definition, "names": names, **options}
        self.function = function
        if definition is not None:
            name, is_given = definition.name, True
            self.namespace: str = definition.namespace
            tags, callers = definition.tags, definition.callers
        else:
            is_given = bool(options.get("name"))
            name = options.get("name") or function_name(function)
            self.namespace = options.get("namespace", "")
            tags, callers = options.get("tags", ()), as_items(options.get("callers", ()))
        self.name: str = _check_name(name, function, is_given=is_given)
        self.key: tuple[str, str] = (self.namespace, self.name)
        self.tags: frozenset[str] = _as_set(tags)
        self.effects: frozenset[Effect] = _as_set(options.get("effects", ())) or ANY_EFFECT
        self._check_words(callers)
        for option in options.keys() & _ATTRIBUTES:
            setattr(self, option, options[option])
        self.is_async: bool = is_async(function)
        self.is_external: bool = function is answer_elsewhere
        """Whether it has only a definition: the answers to its calls come from elsewhere."""
        self.reopen: Reopen | None = None
        """Continues to wait with a call that another process has saved."""
        self.successor: object = None
        """The agent that its calls hand the conversation over to."""
        self.server_hints: Mapping[str, Any] = {}
        """What an MCP server declares about its tool besides the definition; nothing is decided by it."""
        self.catch_up: Callable[[], Awaitable[bool]] | None = None
        """Waits until changes that its MCP server has announced are known; False: they cannot be known."""
        self._bound_tools: WeakValueDictionary[int, Tool] | None = None
        self._unbound_tool: Tool | None = None
        # Checked early because it costs nothing; other checks wait until the definition is needed.
        code = (
            function.__code__
            if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__")
            else None
        )
        if code is not None and code.co_flags & _CO_VARARGS:
            reason = "it takes *args, but a model passes arguments by name; use a list parameter instead"
            raise InvalidTool(f"{qualified_name(function)} cannot be the tool {self.name!r}: {reason}")
        update_wrapper(self, cast(Function, function), _FUNCTION_ATTRIBUTES, ())
        if self._has_examples_to_check():
            _ = self._spec  # checks them

    def _check_words(self, callers: Iterable[str]) -> None:
        """Raise InvalidTool for an effect or a caller that there is not."""
        if unknown_effects := self.effects - ANY_EFFECT:
            effect, known = ", ".join(map(repr, unknown_effects)), ", ".join(get_args(Effect))
            raise InvalidTool(f"tool {self.name!r}: unknown effect {effect}; known: {known}")
        if unknown_callers := [caller for caller in callers if caller not in ("model", "code")]:
            raise InvalidTool(
                f"tool {self.name!r}: unknown caller {unknown_callers[0]!r:.80}; known: model, code"
            )

    def _has_examples_to_check(self) -> bool:
        """Whether there are examples and a given schema; one that must be derived is derived when it is
        needed.
        """
        definition = self._options["definition"]
        if definition is not None:
            return bool(definition.examples)
        return bool(self._options.get("examples")) and self._options.get("parameters") is not None

    # -- what a model sees

    @property
    def definition(self) -> ToolDefinition:
        """What a model sees."""
        return self._spec.definition

    @property
    def qualified_name(self) -> str:
        """The name with its namespace, if it has one."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def description(self) -> str:
        """The description that a model reads."""
        return self.definition.description

    # -- what a program does

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the return annotation; None if there is none, or it cannot be represented in
        JSON.
        """
        try:
            annotation = inspect.signature(cast(Function, self.function)).return_annotation
            returned = inspect.Parameter("returned", inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            hint = evaluate_annotations(self.function, [returned], None, self._options.get("names") or {})[
                "returned"
            ]
            return OutputType(hint).schema or None
        except (ToolglotError, TypeError, ValueError):
            # a type that JSON cannot represent, or a function without a signature
            return None

    @cached_property
    def needs(self) -> Any:
        """The type of the data in the function's `Context[…]`; Any if it has none, or if that cannot be resolved."""
        try:
            parameters, _ = list_parameters(self.function)
            contexts = [p for p in parameters if is_context_annotation(p.annotation)][:1]
            hints = evaluate_annotations(self.function, contexts, Context, self._options.get("names") or {})
        except InvalidTool:  # the definition says why
            return Any
        for hint in hints.values():
            for part in (hint, *get_args(hint)):
                if get_origin(part) is Context:
                    return get_args(part)[0]
        return Any

    @property
    def wants_context(self) -> bool:
        """Whether the function has a parameter for the Context."""
        return self._spec.context_parameter is not None

    def bind(self, call: ToolCall) -> BoundArguments:
        """Validate and repair the arguments of a call.

        Raises ToolError (validation), written for the model.
        """
        spec = self._spec
        arguments = call.arguments
        if spec.definition.kind == "freeform":
            text = _read_text(call)
            return BoundArguments({spec.sole_parameter: text}, {spec.sole_parameter: text})
        if (
            arguments is not None
            and not call.freeform
            and (values := spec.binder.bind(arguments)) is not None
        ):
            return BoundArguments(arguments, values)
        try:
            arguments, repairs = read_arguments(call)
            if (values := spec.binder.bind(arguments)) is not None:
                return BoundArguments(arguments, values, repairs)
            arguments, values, more_repairs = repair_arguments(arguments, spec.binder, call.name)
        except InvalidArguments as e:
            message = explain_issues(spec.definition, e.issues)
            raise ToolError(
                message,
                kind="validation",
                code="invalid_arguments",
                tool=self.name,
                call_id=call.id,
                details=e.issues,
            ) from None
        except UsageError as e:
            raise ToolError(
                f"The tool {self.name} cannot be called: {e}", tool=self.name, call_id=call.id
            ) from None
        return BoundArguments(arguments, values, repairs + more_repairs)

    def call(self, values: dict[str, Any], context: Context) -> Any:
        """Call the function in this thread; return its value, or an awaitable for it."""
        spec = self._spec
        # The function may modify them, and a retry needs them unchanged. Most have only texts and numbers.
        is_flat = _CONTAINERS.isdisjoint(map(type, values.values()))
        values = values.copy() if is_flat else deep_copy(values)
        if spec.sole_parameter and spec.definition.kind != "freeform":
            values = {spec.sole_parameter: values}
        if spec.context_parameter is not None:
            values[spec.context_parameter] = context
        positional: Iterable[Any] = ()
        if spec.positional:
            positional = [values.pop(name) for name in spec.positional if name in values]
        value = cast(Function, self.function)(*positional, **values)
        if isinstance(value, GeneratorType):
            return collect_generator(cast(Iterator[Any], value))
        if isinstance(value, AsyncGeneratorType):
            return collect_async_generator(cast(AsyncIterator[Any], value))
        return value

    async def invoke(self, values: dict[str, Any], context: Context) -> Any:
        """Call the function and await its value."""
        value = self.call(values, context)
        return await value if inspect.isawaitable(value) else value

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        return self.function(*args, **kwargs)

    @show_options(ToolOptions)
    def replace(self, **options: Unpack[ToolOptions]) -> "Tool[Parameters, Returned, Needs]":
        """Return a copy of the tool with other options."""
        changes: dict[str, Any] = {**options}
        definition = self._options["definition"]
        if definition and (fields := {key: changes.pop(key) for key in _DEFINITION_FIELDS if key in changes}):
            if "examples" in fields:
                fields["examples"] = tuple(_to_example(example, self.name) for example in fields["examples"])
            changes["definition"] = msgspec.structs.replace(definition, **fields)
        tool = Tool(self.function, **{**self._options, **changes})
        tool.reopen, tool.successor = self.reopen, self.successor
        return tool

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}: {qualified_name(self.function)}>"

    # -- methods

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method without its object: `Class.method`."""
        if not isinstance(self.function, FunctionType):
            return False
        if self._binding is classmethod:
            return True
        return is_in_class(self.function) and first_parameter(self.function) in ("self", "cls")

    @overload
    def __get__(
        self, instance: None, owner: type[Any] | None = None
    ) -> "Tool[Parameters, Returned, Needs]": ...
    @overload
    def __get__(
        self: "Tool[Concatenate[Any, _P], _R, NeedsOf]", instance: object, owner: type[Any] | None = None
    ) -> "Tool[_P, _R, NeedsOf]": ...
    def __get__(self, instance: Any, owner: type[Any] | None = None) -> "Tool[..., Any]":
        """Bind a method to its object, as functions do."""
        holder = owner if self._binding is classmethod else instance
        if holder is None or not isinstance(self.function, FunctionType) or self._binding is staticmethod:
            return self
        if self._binding is not classmethod and not is_in_class(self.function):
            return self
        if self._bound_tools is None:
            self._bound_tools = WeakValueDictionary()
        bound = self._bound_tools.get(id(holder))  # a bound tool keeps its object alive, so the id is unique
        if bound is None:
            options: dict[str, Any] = self._options | {"name": self.name}
            bound = Tool(cast(Any, MethodType(self.function, holder)), **options)
            bound._unbound_tool = self if first_parameter(self.function) in ("self", "cls") else None
            self._bound_tools[id(holder)] = bound
        return bound

    if TYPE_CHECKING:

        def __sizeof__(self, _: None, /) -> int:  # type: ignore[override]
            """Not like that of any other object, so that `PlainFunction` is everything that can be called but a Tool."""
            ...
    else:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """Accept `Tool[Parameters, Returned]`: before Python 3.13, the default of the last one is for type checkers."""
            if isinstance(parameters, tuple) and len(parameters) == 2:
                parameters = (*parameters, Any)
            return super().__class_getitem__(parameters)

    # -- built once

    @cached_property
    def _spec(self) -> _ToolSpec:
        spec = self._build_spec()
        definition = spec.definition
        if definition.examples and definition.kind != "freeform" and MCP_TAG not in definition.tags:
            _check_examples(definition, spec.binder)
        return spec

    def _build_spec(self) -> _ToolSpec:
        options = self._options
        if self._unbound_tool is not None:
            return self._unbound_tool._spec
        if options["definition"] is not None:
            return self._build_spec_from_schema(options["definition"])
        if options.get("parameters") is not None:
            description = parse_docstring(function_doc(self.function))[0]
            return self._build_spec_from_schema(
                self._build_definition(description, dict(options["parameters"]))
            )
        derived = derive(self.function, context_type=Context, namespace=options["names"])
        definition = self._build_definition(derived.description, derived.schema)
        return _ToolSpec(definition, derived, derived.context_parameter, derived.positional_names)

    def _build_spec_from_schema(self, definition: ToolDefinition) -> _ToolSpec:
        # An MCP server applies its defaults itself, and gets what the model wrote.
        binder = SchemaBinder(definition.parameters or {}, fills_defaults=MCP_TAG not in definition.tags)
        parameters, extra = list_parameters(self.function)
        context = next((p.name for p in parameters if is_context_annotation(p.annotation)), None)
        names = [p.name for p in parameters if p.name != context]
        sole_parameter = ""
        if definition.kind == "freeform":
            if not names:
                function = qualified_name(self.function)
                reason = "it has no parameter for the text"
                raise InvalidTool(f"{function} cannot be the freeform tool {definition.name!r}: {reason}")
            sole_parameter = names[0]
        elif len(names) == 1 and extra is None and names[0] not in binder.parameter_names:
            sole_parameter = names[0]  # it takes all arguments
        positional = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY)
        return _ToolSpec(definition, binder, context, positional, sole_parameter)

    def _build_definition(self, description: str, schema: dict[str, Any]) -> ToolDefinition:
        options = self._options
        given = options.get("description")
        return ToolDefinition(
            self.name,
            description if given is None else given,
            schema,
            strict=options.get("strict"),
            namespace=self.namespace,
            examples=tuple(_to_example(example, self.name) for example in options.get("examples", ())),
            tags=self.tags,
            version=options.get("version", ""),
            deferred=bool(options.get("deferred")),
            callers=tuple(as_items(options.get("callers", ()))),
            output_schema=options.get("output_schema"),
        )


_ATTRIBUTES = frozenset(Tool.__annotations__)
_ITERABLES = frozenset({"tags", "examples", "effects", "callers"})

# With those from `__annotations__` on, `inspect` treats a tool as its function: it has a signature, and may
# be a coroutine.
_FUNCTION_ATTRIBUTES = (
    *("__doc__", "__module__", "__name__", "__qualname__"),
    *("__annotations__", "__code__", "__defaults__", "__kwdefaults__"),
)
_DEFINITION_FIELDS = (
    *("name", "description", "tags", "version", "strict", "namespace", "parameters", "examples"),
    *("deferred", "callers", "output_schema"),
)


# ---- making tools


class PlainFunction(Protocol):
    """Anything that can be called, except a Tool: type checkers do not compare what its Context needs."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __sizeof__(self) -> int: ...


# A function fits one of these protocols if it can be called in both ways: the first tells type checkers its parameters and
# the value that it returns, the second the data that its Context has.


class _WithContextFirst(Protocol[_P, _Value, NeedsOf]):  # pyright: ignore[reportInvalidTypeVarUse]
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Value: ...
    @overload
    def __call__(self, context: Context[NeedsOf], /, *args: Any, **kwargs: Any) -> Any: ...


class _WithContextSecond(Protocol[_P, _Value, NeedsOf]):  # pyright: ignore[reportInvalidTypeVarUse]
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Value: ...
    @overload
    def __call__(self, first: Any, context: Context[NeedsOf], /, *args: Any, **kwargs: Any) -> Any: ...


class _WithContextThird(Protocol[_P, _Value, NeedsOf]):  # pyright: ignore[reportInvalidTypeVarUse]
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Value: ...
    @overload
    def __call__(
        self, first: Any, second: Any, context: Context[NeedsOf], /, *args: Any, **kwargs: Any
    ) -> Any: ...


class _WithContextNamed(Protocol[_P, _Value, NeedsOf]):  # pyright: ignore[reportInvalidTypeVarUse]
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _Value: ...
    @overload
    def __call__(self, *args: Any, context: Context[NeedsOf], **kwargs: Any) -> Any: ...


class _Decorator(Protocol):
    @overload
    def __call__(self, function: _WithContextFirst[_P, _R, NeedsOf], /) -> Tool[_P, _R, NeedsOf]: ...
    @overload
    def __call__(self, function: _WithContextSecond[_P, _R, NeedsOf], /) -> Tool[_P, _R, NeedsOf]: ...
    @overload
    def __call__(self, function: _WithContextThird[_P, _R, NeedsOf], /) -> Tool[_P, _R, NeedsOf]: ...
    @overload
    def __call__(self, function: _WithContextNamed[_P, _R, NeedsOf], /) -> Tool[_P, _R, NeedsOf]: ...
    @overload
    def __call__(self, function: Callable[_P, _R], /) -> Tool[_P, _R]: ...


@overload
def tool(
    function: _WithContextFirst[_P, _R, NeedsOf], /, **options: Unpack[ToolOptions]
) -> Tool[_P, _R, NeedsOf]: ...
@overload
def tool(
    function: _WithContextSecond[_P, _R, NeedsOf], /, **options: Unpack[ToolOptions]
) -> Tool[_P, _R, NeedsOf]: ...
@overload
def tool(
    function: _WithContextThird[_P, _R, NeedsOf], /, **options: Unpack[ToolOptions]
) -> Tool[_P, _R, NeedsOf]: ...
@overload
def tool(
    function: _WithContextNamed[_P, _R, NeedsOf], /, **options: Unpack[ToolOptions]
) -> Tool[_P, _R, NeedsOf]: ...
@overload
def tool(function: Callable[_P, _R], /, **options: Unpack[ToolOptions]) -> Tool[_P, _R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> "_Decorator": ...
@show_options(ToolOptions)
def tool(function: Function | None = None, /, **options: Any) -> "Tool | _Decorator":
    """Make a function a tool: `@tool`, `@tool(effects="read", timeout=5)`, `tool(some.callable,
    name="search")`.
    """

    def decorate(function: Callable[_P, _R], /, depth: int = 1) -> Tool[_P, _R]:
        if isinstance(function, Tool):
            return cast(Tool[_P, _R], function).replace(**options)
        return Tool(function, **options, names=find_local_names(function, sys._getframe(depth)))  # pyright: ignore[reportPrivateUsage]

    return decorate if function is None else decorate(function, 2)


@overload
def tool_from_definition(definition: ToolDefinition, **options: Unpack[ToolOptions]) -> Tool[..., Any]: ...
@overload
def tool_from_definition(
    definition: ToolDefinition, function: Callable[_P, _R], **options: Unpack[ToolOptions]
) -> Tool[_P, _R]: ...
@show_options(ToolOptions)
def tool_from_definition(
    definition: ToolDefinition, function: Callable[..., Any] | None = None, **options: Unpack[ToolOptions]
) -> Tool[..., Any]:
    """Create a tool with a given definition.

    A freeform tool passes the model's text to the function's first parameter. Without a function, each call
    waits for an `Answer` from elsewhere, for `timeout` seconds at most.
    """
    if function is None:
        return Tool(answer_elsewhere, definition=definition, **{"inline": True, **options})
    return Tool(function, definition=definition, **options)


@show_options(SchemaToolOptions)
def tool_from_schema(
    name: str,
    description: str,
    parameters: dict[str, Any],
    function: Callable[_P, _R],
    **options: Unpack[SchemaToolOptions],
) -> Tool[_P, _R]:
    """Create a tool from a JSON Schema.

    The function is called with keyword arguments, and with the schema's defaults.

    If its only parameter, besides a Context, is not a property of the schema, it receives all arguments as a
    dict.
    """
    return tool_from_definition(ToolDefinition(name, description, parameters), function).replace(**options)


def tools_of(obj: Any, *, prefix: str = "") -> list[Tool]:
    """Create tools from an object's public methods, or from a module's own functions, in definition order."""
    local_names = vars(cast(type[Any], type(obj)))
    members = _module_functions(obj) if isinstance(obj, ModuleType) else _public_methods(obj)
    tools: list[Tool] = [
        value if isinstance(value, Tool) else Tool(value, names=local_names) for value in members
    ]
    if not prefix:
        return tools
    return [tool.replace(name=prefix + tool.name) for tool in tools]


def _module_functions(module: ModuleType) -> Iterable[Any]:
    for name, value in vars(module).items():
        is_function = isinstance(value, (FunctionType, Tool))
        if is_function and not name.startswith("_") and value.__module__ == module.__name__:
            yield value


def _public_methods(obj: Any) -> Iterable[Any]:
    """Yield the methods of an object, or those of a class that need no object."""
    kind = cast(type[Any], obj if inspect.isclass(obj) else type(obj))
    names = {name: None for base in reversed(kind.__mro__[:-1]) for name in vars(base)}
    for name in names:
        if name.startswith("_"):
            continue
        static = inspect.getattr_static(obj, name)
        if not isinstance(static, (FunctionType, staticmethod, classmethod, Tool)):
            continue
        value = getattr(obj, name)
        # @classmethod over @tool
        if isinstance(value, MethodType) and isinstance(inner := cast(Any, value.__func__), Tool):
            value = Tool(cast(Any, MethodType(inner.function, value.__self__)), **inner._options)  # pyright: ignore[reportPrivateUsage]
        if not _needs_object(value):
            yield value


def _needs_object(function: Any) -> bool:
    """Return whether this is a method without its object."""
    if isinstance(function, Tool):
        return function.is_unbound
    return isinstance(function, FunctionType) and first_parameter(function) == "self"


# ---- inspecting functions


def qualified_name(function: Any) -> str:
    """Return `module.name` of a function, for messages."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    named = function if hasattr(function, "__qualname__") else cast(Any, type(function))
    return f"{named.__module__}.{named.__qualname__}"


def is_async(function: Any) -> bool:
    """Return whether calling a function returns a coroutine or an async generator."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    function = getattr(function, "__func__", function)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def is_context_annotation(annotation: Any) -> bool:
    """Return whether an annotation, possibly a string, is Context, Context[Data] or a union with one of them."""
    if isinstance(annotation, str):
        return re.fullmatch(r"(?:\w+\.)*Context(?:\[.*\])?(?:\s*\|\s*None)?", annotation.strip()) is not None
    return any(part is Context or get_origin(part) is Context for part in (annotation, *get_args(annotation)))


def is_in_class(function: FunctionType) -> bool:
    """Return whether a function was defined in the body of a class."""
    holder = function.__qualname__.rpartition(".")[0]
    return bool(holder) and not holder.endswith("<locals>")


def first_parameter(function: FunctionType) -> str:
    """Return the name of the first parameter; "" if there is none."""
    return function.__code__.co_varnames[0] if function.__code__.co_argcount else ""


def find_local_names(function: Any, frame: FrameType) -> dict[str, Any] | None:
    """Return the local names that string annotations refer to, from the frame that defines the function."""
    if frame.f_code.co_name == "<module>":
        return None
    annotations = [
        text for text in getattr(function, "__annotations__", {}).values() if isinstance(text, str)
    ]
    words = set(re.findall(r"\w+", " ".join(annotations)))
    if not words:
        return None
    local = dict(frame.f_locals)
    outer = frame.f_back
    is_class_body = "__qualname__" in local
    if is_class_body and outer is not None and outer.f_code.co_name != "<module>":
        local = {**outer.f_locals, **local}
    return {word: local[word] for word in words if word in local}


def _read_text(call: ToolCall) -> str:
    """Return the text of a freeform call.

    A wire without freeform tools sends it as the one argument of a function.
    """
    if not call.freeform and call.arguments is not None and len(call.arguments) == 1:
        value = next(iter(call.arguments.values()))
        if isinstance(value, str):
            return value
    return call.raw or ""


def _check_options(options: Mapping[str, Any], definition: ToolDefinition | None, function: Any) -> None:
    """Raise UnknownName or InvalidTool for an option that there is not, or for a value that it does not take."""
    for option, value in options.items():
        if option not in ToolOptions.__annotations__:
            raise UnknownName("tool option", option, ToolOptions.__annotations__)
        if words := find_advice(option, value):
            given = definition.name if definition is not None else options.get("name")
            name = given if given and isinstance(given, str) else function_name(function)
            raise InvalidTool(f"tool {name!r:.80}: {option}: pass {words}, not {value!r:.80}")


def _check_examples(definition: ToolDefinition, binder: ArgumentBinder) -> None:
    """Raise InvalidTool for an example that a call could not have as its arguments.

    What only a format or a type's own validator refuses is accepted: whether a file exists depends on where
    the program runs.
    """
    for example in definition.examples:
        if binder.bind(example.input) is not None:
            continue
        try:
            violations = find_issues(example.input, definition.parameters)
        except UsageError as e:  # a broken schema
            raise InvalidTool(f"tool {definition.name!r}: {e}") from None
        # pydantic's formats are wider than those of JSON Schema: a time may have no zone.
        issues = [issue for issue in violations if issue.keyword != "format"]
        if issues:
            reason, text = "; ".join(map(str, issues[:3])), truncate(dumps_text(example.input), 80)
            raise InvalidTool(
                f"tool {definition.name!r}: the example {text} does not fit its parameters ({reason})"
            )


def _as_set(names: Any) -> frozenset[Any]:
    return frozenset((names,) if isinstance(names, str) else names)


def _check_name(name: str, function: Any, *, is_given: bool) -> str:
    """Check a name.

    Explicit names may be any printable text: wires reversibly map what their providers refuse.
    """
    is_visible = name.strip() != "" and name.isprintable()
    if len(name) > MAX_NAME:
        reason = f"over {MAX_NAME} characters"
    elif name.isidentifier() or (is_given and is_visible):
        return name
    elif is_given:
        reason = "it must be visible text on one line"
    else:
        reason = "it is not an identifier"
    raise InvalidTool(
        f"{name!r:.140} ({qualified_name(function)}) cannot be the name of a tool ({reason}); pass name=…"
    )


def _to_example(example: Any, name: str) -> ToolExample:
    """Convert a mapping, which has the fields of ToolExample or is the input itself."""
    if isinstance(example, ToolExample):
        return example
    if not isinstance(example, Mapping):
        raise InvalidTool(
            f"tool {name!r}: an example is a ToolExample or a dict, not {type(example).__name__}"
        )
    fields = dict(cast(Mapping[str, Any], example))
    if isinstance(fields.get("input"), Mapping) and fields.keys() <= {"input", "output", "description"}:
        return ToolExample(**fields)
    return ToolExample(fields)
