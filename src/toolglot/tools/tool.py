"""A tool: what a model sees of it, the function that does it, and what may be done with it.

Laws: `@tool` costs microseconds; schema and binder are made when they are first needed, once. A call does no reflection.
A decorated function stays what it was: calling the Tool calls the function.
"""

import inspect
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import FrameType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, Literal, cast, get_args, overload
from weakref import WeakValueDictionary

import msgspec

from toolglot.errors import InvalidTool, ToolError, UnknownName, UsageError
from toolglot.losses import Repair
from toolglot.messages import ToolCall
from toolglot.request import ToolDefinition, ToolExample
from toolglot.schema.arguments import (
    ArgumentBinder,
    InvalidArguments,
    Issue,
    SchemaBinder,
    deep_copy,
    explain_issues,
    read_arguments,
    repair_arguments,
)
from toolglot.schema.derive import derive
from toolglot.schema.docstrings import parse_docstring
from toolglot.schema.signatures import function_doc, function_name, list_parameters
from toolglot.tools.config import ANY_EFFECT, Effect
from toolglot.tools.context import Context
from toolglot.tools.results import collect_async_generator, collect_generator

__all__ = ["BoundArguments", "Rate", "Tool", "tool", "tool_from_definition", "tool_from_schema", "tools_of"]

Function = Callable[..., Any]
MAX_NAME = 128
_NAME = re.compile(r"[\w.:/@-]+")  # what a provider's own rules forbid is mapped by its wire, reversibly
_CO_VARARGS = 0x04  # of code objects


class Rate(msgspec.Struct, frozen=True):
    """At most so many calls in so many seconds."""

    calls: int
    seconds: float


class BoundArguments(msgspec.Struct, frozen=True, gc=False):
    """A call made fit: the arguments in JSON form, the function's keyword arguments, and what was mended."""

    arguments: dict[str, Any]
    values: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


class _ToolSpec(msgspec.Struct, frozen=True):
    """What is found out about a tool when it is first needed. `whole`: its one parameter takes all the arguments."""

    definition: ToolDefinition
    binder: ArgumentBinder
    context_parameter: str | None = None
    positional: tuple[str, ...] = ()
    sole_parameter: str = ""

    @property
    def is_simple(self) -> bool:
        """Whether the values are all that the function wants."""
        return self.context_parameter is None and not self.positional and not self.sole_parameter


class Tool:
    """A function that a model may call.

    effects: what it may touch; a tool that does not say may have any effect. inline: so short that it needs no thread.
    idempotent: running it twice does no harm. polls: the same call may bring something new each time, it is never a circle.
    ordered: its calls keep their place: they wait for the calls before them in a turn, and those after wait for them.
    approval: True asks always, False never, None leaves it to the policy. target: tells from the arguments what a call really
    touches; preview: what it would do, for the one who approves it: the full command, or a diff. max_result: characters of a
    result that the model sees.
    """

    def __init__(
        self,
        function: Function,
        *,
        definition: ToolDefinition | None = None,
        name: str = "",
        description: str | None = None,
        examples: Iterable[ToolExample | Mapping[str, Any]] = (),
        tags: Iterable[str] = (),
        version: str = "",
        strict: bool | None = None,
        namespace: str = "",
        parameters: Mapping[str, Any] | None = None,
        effects: Effect | Iterable[Effect] = (),
        inline: bool = False,
        idempotent: bool = False,
        polls: bool = False,
        ordered: bool = False,
        timeout: float | None = None,
        max_uses: int | None = None,
        rate: Rate | None = None,
        approval: bool | None = None,
        target: Callable[[dict[str, Any]], str] | None = None,
        preview: Callable[[dict[str, Any]], str] | None = None,
        max_result: int | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        self._options: dict[str, Any] = {key: value for key, value in locals().items() if key not in ("self", "function")}
        self._binding: type[Any] = type(function)
        self.function: Function = (
            cast(Any, function).__func__ if isinstance(function, (staticmethod, classmethod)) else function
        )
        if not callable(self.function):
            raise InvalidTool(f"{function!r:.80} cannot be a tool: it cannot be called")
        self._name = definition.name if definition else _check_name(name or function_name(self.function), self.function)
        self.namespace = definition.namespace if definition else namespace
        """Of the name; empty for most tools."""
        self.key = (self.namespace, self._name)
        self.tags = definition.tags if definition else frozenset(tags)
        """Words to select tools by."""
        self.effects = _check_effects(effects, self._name)
        self.inline, self.idempotent, self.polls, self.ordered, self.timeout = inline, idempotent, polls, ordered, timeout
        self.max_uses, self.rate, self.approval = max_uses, rate, approval
        self.target, self.preview, self.max_result = target, preview, max_result
        self._call_style = _detect_call_style(self.function)
        self.is_async = self._call_style in ("coroutine", "async generator")
        self._spec: _ToolSpec | None = None
        self._bound_tools: WeakValueDictionary[int, Tool] | None = None
        self._unbound_tool: Tool | None = None
        _check_no_varargs(self.function, self._name)
        for attribute in ("__doc__", "__module__", "__name__", "__qualname__"):
            if (value := getattr(self.function, attribute, None)) is not None:
                setattr(self, attribute, value)
        self.__wrapped__ = self.function

    # -- what a model sees

    @property
    def name(self) -> str:
        """The name under which a model calls it."""
        return self._name

    @property
    def definition(self) -> ToolDefinition:
        """What a model sees."""
        return (self._spec or self._build_spec()).definition

    @property
    def description(self) -> str:
        """What a model is told."""
        return self.definition.description

    # -- what a program does

    @property
    def accepted_parameters(self) -> frozenset[str]:
        """The names of all arguments that can be bound, including internal parameters that models are not shown."""
        return (self._spec or self._build_spec()).binder.parameter_names

    @property
    def wants_context(self) -> bool:
        """Whether the function has a parameter for the Context."""
        return (self._spec or self._build_spec()).context_parameter is not None

    def bind(self, call: ToolCall) -> BoundArguments:
        """The arguments of a call, checked and mended. Raises ToolError (validation), written for the model."""
        made = self._spec or self._build_spec()
        arguments = call.arguments
        if arguments is not None and not call.freeform and made.definition.kind != "freeform":
            values = made.binder.bind(arguments)
            if values is not None:
                return BoundArguments(arguments, values)
        return self._bind_with_repairs(call, made)

    def call(self, values: dict[str, Any], context: Context) -> Any:
        """Calls the function, in this thread: its value, or an awaitable of it."""
        made = self._spec or self._build_spec()
        values = deep_copy(values)  # the next attempt finds them as they were
        value = self.function(**values) if made.is_simple else _call_function(self.function, made, values, context)
        if isinstance(value, GeneratorType):
            return collect_generator(cast(Iterator[Any], value))
        return collect_async_generator(cast(AsyncIterator[Any], value)) if self._call_style == "async generator" else value

    async def invoke(self, values: dict[str, Any], context: Context) -> Any:
        """Calls the function and waits for its value."""
        value = self.call(values, context)
        return await value if inspect.isawaitable(value) else value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def replace(self, **changes: Any) -> "Tool":
        """The same tool with other options."""
        if (given := self._options["definition"]) and (
            inside := {key: changes.pop(key) for key in _DEFINITION_FIELDS if key in changes}
        ):
            name = _check_name(inside.get("name", given.name), self.function)
            if "tags" in inside:
                inside["tags"] = frozenset(inside["tags"])
            if "examples" in inside:
                inside["examples"] = tuple(_to_example(one, name) for one in inside["examples"])
            changes["definition"] = msgspec.structs.replace(given, **inside)
        return Tool(self.function, **{**self._options, **changes})

    def __repr__(self) -> str:
        return f"<Tool {self._name!r}: {qualified_name(self.function)}>"

    # -- methods

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method without its object: `Class.method`."""
        return isinstance(self.function, FunctionType) and (
            self._binding is classmethod or (_is_in_class(self.function) and _first_parameter(self.function) in ("self", "cls"))
        )

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> "Tool":
        """As with functions: through an object, it is the object's own."""
        holder = owner if self._binding is classmethod else instance
        if holder is None or not isinstance(self.function, FunctionType) or self._binding is staticmethod:
            return self
        if self._binding is not classmethod and not _is_in_class(self.function):
            return self
        if self._bound_tools is None:
            self._bound_tools = WeakValueDictionary()
        bound = self._bound_tools.get(id(holder))  # while the bound tool lives, so does its object, and the id is its own
        if bound is None:
            options: dict[str, Any] = self._options | {"name": self._name}
            bound = Tool(cast(Any, MethodType(self.function, holder)), **options)
            bound._unbound_tool = self if _first_parameter(self.function) in ("self", "cls") else None
            self._bound_tools[id(holder)] = bound
        return bound

    # -- made once

    def _build_spec(self) -> _ToolSpec:
        if self._unbound_tool is not None:
            made = self._unbound_tool._spec or self._unbound_tool._build_spec()
        elif (given := self._options["definition"]) or self._options["parameters"] is not None:
            made = self._build_spec_from_schema(given)
        else:
            found = derive(self.function, context_type=Context, namespace=self._options["names"])
            made = _ToolSpec(
                self._build_definition(found.description, found.schema), found, found.context_parameter, found.positional_names
            )
        self._spec = made
        return made

    def _build_spec_from_schema(self, definition: ToolDefinition | None) -> _ToolSpec:
        """A tool whose schema was given."""
        if definition is None:
            description = "" if self._options["description"] is not None else parse_docstring(function_doc(self.function))[0]
            definition = self._build_definition(description, dict(self._options["parameters"]))
        binder = SchemaBinder(definition.parameters or {})
        found, extra = list_parameters(self.function)
        context = next((p.name for p in found if _is_context(p.annotation)), None)
        shown = [p for p in found if p.name != context]
        text = definition.kind == "freeform"
        if text and not shown:
            raise InvalidTool(
                f"{qualified_name(self.function)} cannot be the freeform tool {definition.name!r}: it has no parameter for the text"  # noqa: E501
            )
        alone = len(shown) == 1 and extra is None and shown[0].name not in binder.parameter_names
        positional = tuple(p.name for p in found if p.kind is p.POSITIONAL_ONLY)
        return _ToolSpec(definition, binder, context, positional, shown[0].name if text or alone else "")

    def _build_definition(self, description: str, schema: dict[str, Any]) -> ToolDefinition:
        said = self._options
        return ToolDefinition(
            self._name,
            description if said["description"] is None else said["description"],
            schema,
            strict=said["strict"],
            namespace=said["namespace"],
            examples=tuple(_to_example(example, self._name) for example in said["examples"]),
            tags=self.tags,
            version=said["version"],
        )

    def _bind_with_repairs(self, call: ToolCall, spec: _ToolSpec) -> BoundArguments:
        if spec.definition.kind == "freeform":
            text = _freeform_text(call)
            return BoundArguments({spec.sole_parameter: text}, {spec.sole_parameter: text})
        try:
            arguments, repairs = read_arguments(call)
            values = spec.binder.bind(arguments)
            if values is not None:
                return BoundArguments(arguments, values, repairs)
            arguments, values, more = repair_arguments(arguments, spec.binder, call.name)
        except InvalidArguments as e:
            raise self._validation_error(call, e.issues) from None
        except UsageError as e:
            raise ToolError(f"The tool {self._name} cannot be called: {e}", tool=self._name, call_id=call.id) from None
        return BoundArguments(arguments, values, repairs + more)

    def _validation_error(self, call: ToolCall, issues: list[Issue]) -> ToolError:
        text = explain_issues(self.definition, issues)
        return ToolError(text, kind="validation", tool=self._name, call_id=call.id, details=issues)


_DEFINITION_FIELDS = ("name", "description", "tags", "version", "strict", "namespace", "parameters", "examples")


# ---- making tools


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str | None = None,
    examples: Iterable[ToolExample | Mapping[str, Any]] = (),
    tags: Iterable[str] = (),
    version: str = "",
    strict: bool | None = None,
    namespace: str = "",
    parameters: Mapping[str, Any] | None = None,
    effects: Effect | Iterable[Effect] = (),
    inline: bool = False,
    idempotent: bool = False,
    polls: bool = False,
    ordered: bool = False,
    timeout: float | None = None,
    max_uses: int | None = None,
    rate: Rate | None = None,
    approval: bool | None = None,
    target: Callable[[dict[str, Any]], str] | None = None,
    preview: Callable[[dict[str, Any]], str] | None = None,
    max_result: int | None = None,
) -> Callable[[Function], Tool]: ...
def tool(function: Function | None = None, /, **options: Any) -> Tool | Callable[[Function], Tool]:
    """Makes a function a tool: `@tool`, `@tool(effects="read", timeout=5)`, `tool(some.callable, name="look")`."""
    if isinstance(function, Tool):
        return function.replace(**options)
    if function is not None:
        return Tool(function, **options, names=_find_local_names(function, sys._getframe(1)))  # pyright: ignore[reportPrivateUsage]

    def decorate(function: Function) -> Tool:
        if isinstance(function, Tool):
            return function.replace(**options)
        return Tool(function, **options, names=_find_local_names(function, sys._getframe(1)))  # pyright: ignore[reportPrivateUsage]

    return decorate


def tool_from_definition(definition: ToolDefinition, function: Function, **options: Any) -> Tool:
    """A tool whose definition is known. A freeform one hands the model's text to the function's first parameter."""
    _check_name(definition.name, function)
    return Tool(function, definition=definition, **options)


def tool_from_schema(name: str, description: str, parameters: dict[str, Any], function: Function, **options: Any) -> Tool:
    """A tool from a JSON Schema. The function is called with keyword arguments.

    If it has exactly one parameter, which is no property of the schema, that one gets all the arguments as a dict.
    """
    described = {key: options.pop(key) for key in ("tags", "version", "strict", "namespace") if key in options}
    if "tags" in described:
        described["tags"] = frozenset(described["tags"])
    examples = tuple(_to_example(example, name) for example in options.pop("examples", ()))
    definition = ToolDefinition(name, description, parameters, examples=examples, **described)
    return tool_from_definition(definition, function, **options)


def tools_of(obj: Any, *, prefix: str = "", include: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> list[Tool]:
    """The public methods of an object as tools, in the order of their definition; a module gives its own functions."""
    found = {name: value for name, value in _public_members(obj) if name not in set(exclude)}
    if include is not None:
        wanted = list(include)
        for name in wanted:
            if name not in found:
                raise UnknownName(f"method of {type(obj).__name__}", name, found)
        found = {name: found[name] for name in wanted}
    made = [
        value if isinstance(value, Tool) else Tool(value, names=vars(cast(type[Any], type(obj)))) for value in found.values()
    ]
    return [item.replace(name=prefix + item.name) if prefix else item for item in made]


def _public_members(obj: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(obj, ModuleType):
        for name, value in vars(obj).items():
            if not name.startswith("_") and isinstance(value, (FunctionType, Tool)) and value.__module__ == obj.__name__:
                yield name, value
        return
    kind = cast(type[Any], obj if inspect.isclass(obj) else type(obj))
    names = {name: None for base in reversed(kind.__mro__[:-1]) for name in vars(base) if not name.startswith("_")}
    for name in names:
        static = inspect.getattr_static(obj, name)
        if not isinstance(static, (FunctionType, staticmethod, classmethod, Tool)):
            continue
        value = getattr(obj, name)
        if isinstance(value, MethodType) and isinstance(value.__func__, Tool):  # @classmethod over @tool
            inner = value.__func__
            value = Tool(cast(Any, MethodType(inner.function, value.__self__)), **inner._options)  # pyright: ignore[reportPrivateUsage]
        needs_object = (
            value.is_unbound
            if isinstance(value, Tool)
            else isinstance(value, FunctionType) and _first_parameter(value) == "self"
        )
        if not needs_object:
            yield name, value


# ---- looking at functions


def qualified_name(function: Any) -> str:
    """Where a function is: `module.name`, for messages."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    named = function if hasattr(function, "__qualname__") else cast(Any, type(function))
    return f"{named.__module__}.{named.__qualname__}"


def _call_function(function: Function, spec: _ToolSpec, values: dict[str, Any], context: Context) -> Any:
    if spec.sole_parameter:
        values = values if spec.definition.kind == "freeform" else {spec.sole_parameter: values}
    if spec.context_parameter is not None:
        values = {**values, spec.context_parameter: context}
    if not spec.positional:
        return function(**values)
    first = [values[name] for name in spec.positional if name in values]
    return function(*first, **{name: value for name, value in values.items() if name not in spec.positional})


def _detect_call_style(function: Any) -> Literal["", "coroutine", "generator", "async generator"]:
    """How the function gives its value."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    function = getattr(function, "__func__", function)
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isgeneratorfunction(function):
        return "generator"
    return "async generator" if inspect.isasyncgenfunction(function) else ""


def _check_name(name: str, function: Any) -> str:
    if len(name) <= MAX_NAME and _NAME.fullmatch(name):
        return name
    why = "letters, digits, '_', '-', '.', ':' and '/' make a name" if len(name) <= MAX_NAME else f"over {MAX_NAME} characters"
    raise InvalidTool(
        f"{name!r:.140} ({qualified_name(function)}) cannot be the name of a tool ({why}); give it one with name=…"
    )


def _check_effects(effects: Effect | Iterable[Effect], name: str) -> frozenset[Effect]:
    found = frozenset((effects,) if isinstance(effects, str) else effects)
    if unknown := found - set(get_args(Effect)):
        raise InvalidTool(
            f"tool {name!r}: unknown effect {', '.join(map(repr, unknown))}; known are {', '.join(get_args(Effect))}"
        )
    return found or ANY_EFFECT


def _check_no_varargs(function: Any, name: str) -> None:
    """A first look that costs nothing; the others wait until the definition is needed."""
    if isinstance(function, FunctionType) and function.__code__.co_flags & _CO_VARARGS and not hasattr(function, "__wrapped__"):
        why = "a model gives arguments by name; use a list parameter instead"
        raise InvalidTool(f"{qualified_name(function)} cannot be the tool {name!r}: it takes *args, and {why}")


def _to_example(example: Any, name: str) -> ToolExample:
    """An example; a mapping is one with the fields of ToolExample, or the input itself."""
    if isinstance(example, ToolExample):
        return example
    if not isinstance(example, Mapping):
        raise InvalidTool(f"tool {name!r}: an example is a ToolExample or a dict, not {type(example).__name__}")
    fields = dict(cast(Mapping[str, Any], example))
    if isinstance(fields.get("input"), Mapping) and fields.keys() <= {"input", "output", "description"}:
        return ToolExample(**fields)
    return ToolExample(fields)


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return re.fullmatch(r"(?:\w+\.)*Context(?:\s*\|\s*None)?", annotation.strip()) is not None
    return annotation is Context or Context in get_args(annotation)


def _is_in_class(function: FunctionType) -> bool:
    holder = function.__qualname__.rpartition(".")[0]
    return bool(holder) and not holder.endswith("<locals>")


def _first_parameter(function: FunctionType) -> str:
    return function.__code__.co_varnames[0] if function.__code__.co_argcount else ""


def _freeform_text(call: ToolCall) -> str:
    """The text of a freeform call, also where a wire could only send it as the one argument of a function."""
    if not call.freeform and call.arguments is not None and len(call.arguments) == 1:
        (value,) = call.arguments.values()
        if isinstance(value, str):
            return value
    return call.raw or ""


def _find_local_names(function: Any, frame: FrameType) -> dict[str, Any] | None:
    """Local names that annotations given as text speak about, from where the function is defined."""
    if frame.f_code.co_name == "<module>":
        return None
    said = [text for text in getattr(function, "__annotations__", {}).values() if isinstance(text, str)]
    words = set(re.findall(r"\w+", " ".join(said)))
    if not words:
        return None
    local = dict(frame.f_locals)
    if "__qualname__" in local and frame.f_back and frame.f_back.f_code.co_name != "<module>":  # the body of a class
        local = {**frame.f_back.f_locals, **local}
    return {word: local[word] for word in words if word in local}
