"""Our tools in another framework: shown as a model sees them, and run as an agent runs them.

Arguments are repaired and validated, rules and approvals apply, results are limited and recorded, and the
built-in tools have the names and results of the model's own harness.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, TypedDict, cast
from uuid import uuid4

from msgspec.structs import replace

from toolglot.common.value_checks import as_items
from toolglot.engine.factory import create_engine
from toolglot.facades.view import Facade
from toolglot.loop.agent.config import AnyTools
from toolglot.loop.model_view import ModelView
from toolglot.providers.catalog import infer_provider, resolve_profile, split_model
from toolglot.tools.audit import AuditLog
from toolglot.tools.call_queue import UNLIMITED
from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall, base_call
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.host import HostOptions
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import (
    Allow,
    ApprovalRequest,
    Approve,
    Decision,
    Deny,
    Ruling,
    Suspended,
    read_decision,
)
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import ToolCall
from toolglot.values.request import ToolDefinition
from toolglot.wire.tool_encoding import FREEFORM_SCHEMA

__all__ = ["ExportOptions", "ExportedTools", "read_answer"]

_DEFAULT_CONFIG = ToolConfig()
_NO_WORDS = ("no", "deny", "reject")  # any other text is the reason of a refusal


class ExportOptions(TypedDict, total=False):
    """How tools run in another framework. The options work as in `Agent`."""

    model: str
    """The model that will call them: the built-in tools have the names and results of its own harness."""
    facade: str | Facade
    config: ToolConfig
    approve: Approve | None
    """Decides on approvals. Without it, the framework asks in its own way if it can; otherwise such calls are
    refused."""
    hooks: Iterable[Hooks]
    audit: AuditLog | None
    data: Any


class ExportedTools:
    """The tools of one conversation in another framework."""

    def __init__(
        self,
        tools: AnyTools,
        *,
        model: str = "",
        facade: str | Facade = "auto",
        config: ToolConfig = _DEFAULT_CONFIG,
        approve: Approve | None = None,
        hooks: Iterable[Hooks] = (),
        audit: AuditLog | None = None,
        data: Any = None,
        framework_asks: bool = False,
    ) -> None:
        registry = tools if isinstance(tools, ToolRegistry) else ToolRegistry(as_items(tools))  # pyright: ignore[reportArgumentType]
        provider, name = split_model(model)
        if provider == "simulator":
            profile = create_engine(model).profile
        elif ":" not in model and not infer_provider(model):  # any name or none will do
            profile = resolve_profile("openai-chat", model)
        else:
            profile = resolve_profile(provider, name)
        self._view = ModelView(profile, registry, facade=facade, config=config, defer=False)
        self._options = HostOptions(approve=approve, hooks=HookChain(as_items(hooks)), audit=audit)
        self._host = self._options.open_host()
        self._asked: dict[str, Suspended] = {}  # what was shown, by call id
        self._model, self._facade, self._data = model, facade, data
        self._framework_asks = framework_asks

    def fork(self, data: Any) -> "ExportedTools":
        """Return the tools for another run, with its own data; truncated results stay readable."""
        other = self.with_data(data)
        other = copy(self) if other is self else other
        other._host = self._options.open_host(store=self._host.store)
        return other

    def with_data(self, data: Any) -> "ExportedTools":
        """Return the same conversation's tools with other data for the next call."""
        if data is None:
            return self
        other = copy(self)
        other._data = data
        return other

    def _caller(self) -> Caller:
        can_ask = self._options.approve is not None or self._framework_asks
        return self._current_view().tool_view.caller(model=self._model, data=self._data, can_ask=can_ask)

    def _current_view(self) -> ModelView:
        view = self._view
        if not view.is_current(view.profile, self._facade, view.config, False):
            # Tools were added or removed, for example by an MCP server.
            self._view = ModelView(
                view.profile, view.registry, facade=self._facade, config=view.config, defer=False
            )
        return self._view

    # ---- definitions

    @property
    def note(self) -> str:
        """How to use the built-in tools, for the system prompt; "" if there are none."""
        return "".join(message.text for message in self._view.system_messages(""))

    @property
    def has_long_results(self) -> bool:
        """Whether a result was truncated, so that the model needs `read_result`."""
        return len(self._host.store) > 0

    def definitions(self, *, read_result: bool = True) -> dict[str, ToolDefinition]:
        """Return the current tools by names that frameworks accept; all of them are functions."""
        view = self._current_view()
        extra = (self._host.read_result_tool,) if read_result and "read_result" not in view.registry else ()
        definitions: dict[str, ToolDefinition] = {}
        for tool in view.tools(extra):
            if tool.kind == "freeform":
                tool = replace(tool, parameters=FREEFORM_SCHEMA)
            definitions[tool.qualified_name.replace(".", "__")] = tool
        return definitions

    def may_ask(self, name: str) -> bool:
        """Return whether calls to a tool may need the framework to ask."""
        definition, caller = self.definitions()[name], self._caller()
        tool = self._host.find_tool(ToolCall("", definition.name, {}, namespace=definition.namespace), caller)
        # A facade's name may stand for several tools.
        asks = tool is None or tool.always_ask is not None or self._host.judge(tool, caller).action != "run"
        return asks and self._options.approve is None

    # ---- calls

    def make_call(self, name: str, arguments: Mapping[str, Any], id: str = "") -> AnyCall:
        """Return a tool call as the model made it."""
        definition = self.definitions().get(name)
        name, namespace = (definition.name, definition.namespace) if definition is not None else (name, "")
        call = ToolCall(id or f"call_{uuid4().hex[:16]}", name, dict(arguments), namespace=namespace)
        return self._current_view().interpret(call)

    async def preview(self, call: AnyCall) -> ApprovalRequest | None:
        """Return the approval request that the framework must show before a call; None if none is needed."""
        if self._options.approve is not None:
            return None
        suspended = await self._host.preview(call, self._caller())
        return None if suspended is None else self._remember(suspended)

    async def run(self, call: AnyCall, decision: Decision | None = None) -> ToolOutcome | ApprovalRequest:
        """Run a call; return the approval request instead, before it starts, if it must wait for a decision.

        `decision`: on the request that was returned before. Questions that a tool asks while it runs must be
        answered by
        `approve`: frameworks ask by rerunning the call from the start, which would repeat its effects.
        """
        host, caller = self._host, self._caller()
        ruling = None if decision is None else await self._read_decision(call, caller, decision)
        # Frameworks run calls in several event loops or threads, and limit them themselves.
        async with host.queue.turn(UNLIMITED, is_ordered=host.is_ordered(call, caller)):
            host.policy.begin_turn()
            while True:
                outcome = await host.run_or_suspend(call, caller, ruling)
                if isinstance(outcome, ToolOutcome):
                    return outcome
                if not outcome.has_started:
                    return self._remember(outcome)
                ruling = Ruling(outcome.fingerprint, Deny("nobody can be asked while the tool runs"))

    async def _read_decision(self, call: AnyCall, caller: Caller, decision: Decision) -> Ruling | None:
        """Return a decision with the fingerprint of what it is about."""
        answer = read_decision(decision)
        if answer is None:
            return None
        asked, now = self._asked.pop(base_call(call).id, None), await self._host.preview(call, caller)
        # An answer applies to what was shown, unless it changes the arguments.
        is_changed = asked is None or (now is not None and now.request.arguments != asked.request.arguments)
        shown = now if is_changed else asked
        if shown is not None:
            return Ruling(shown.fingerprint, answer)
        return Ruling("", answer) if isinstance(answer, Deny) else None

    async def run_or_refuse(self, call: AnyCall) -> ToolOutcome:
        """Run a call in a framework that cannot ask; only `approve` can."""
        outcome = await self.run(call)
        return self._host.refuse(call, self._caller()) if isinstance(outcome, ApprovalRequest) else outcome

    def _remember(self, suspended: Suspended) -> ApprovalRequest:
        self._asked[suspended.id] = suspended
        return suspended.request


def read_answer(answer: Any) -> Allow | Deny:
    """Return the decision that a framework's answer stands for; anything other than a clear yes means no."""
    match answer:
        case True | "yes" | "approve" | "allow" | {"type": "approve" | "accept"}:
            return Allow()
        case {"decisions": [decision]}:  # from LangChain's HumanInTheLoopMiddleware, as `edited_action`
            return read_answer(decision)
        case {"type": "edit", "arguments": dict()}:
            return Allow(cast(dict[str, Any], answer["arguments"]))
        case {"type": "edit", "edited_action": {"args": dict()}}:
            return Allow(cast(dict[str, Any], answer["edited_action"]["args"]))
        case {"type": "reject", "message": str(reason)}:
            return Deny(reason)
        case Allow() | Deny():
            return answer
        case str() if answer not in _NO_WORDS:
            return Deny(answer)
        case _:
            return Deny("")
