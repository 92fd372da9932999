"""Our tools in another framework: shown as a model sees them, and run as an agent runs them.

Arguments are repaired and validated, rules and approvals apply, results are limited and recorded, and the built-in tools have
the names and results of the model's own harness.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, TypedDict, cast
from uuid import uuid4

from msgspec.structs import replace

from toolglot.common.value_checks import as_items
from toolglot.engine.factory import create_engine
from toolglot.facades.catalog import find_base_tools
from toolglot.facades.view import Facade
from toolglot.loop.agent_core import AnyTools
from toolglot.loop.model_view import ModelView
from toolglot.providers.catalog import infer_provider, resolve_profile, split_model
from toolglot.tools.audit import AuditLog
from toolglot.tools.call_queue import UNLIMITED
from toolglot.tools.calls import AnyCall, base_call
from toolglot.tools.config import ToolConfig
from toolglot.tools.execution import CallBatch
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import Hooks
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore
from toolglot.tools.turn import run_turn
from toolglot.values.approvals import Allow, ApprovalRequest, Approve, Decision, Deny, Ruling, read_decision
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import ToolCall
from toolglot.values.request import ToolDefinition
from toolglot.wire.tool_encoding import FREEFORM_SCHEMA

__all__ = ["ExportOptions", "ExportedTools", "read_answer"]

_DEFAULT_CONFIG = ToolConfig()


class ExportOptions(TypedDict, total=False):
    """How tools run in another framework. The options work as in `Orchestrator`."""

    model: str
    """The model that will call them: the built-in tools have the names and results of its own harness."""
    facade: str | Facade
    config: ToolConfig
    approve: Approve | None
    """Decides on approvals. Without it, the framework asks in its own way if it can; otherwise such calls are refused."""
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
        self._asked: dict[str, ApprovalRequest] = {}  # requests that were shown, by call id
        self._shared: dict[str, Any] = {"approve": approve, "hooks": tuple(as_items(hooks)), "audit": audit}
        self._shared |= {"metrics": ToolMetrics(), "store": ResultStore(), "find_base_tools": find_base_tools}
        self._framework_asks, self._facade = framework_asks, facade
        self._executor = self._create_executor(registry, config, model, data)

    def _create_executor(self, registry: ToolRegistry, config: ToolConfig, model: str, data: Any) -> ToolExecutor:
        executor = ToolExecutor(registry, config, data=data, **self._shared)
        executor.model = model
        executor.policy.can_ask = executor.policy.can_ask or self._framework_asks
        return executor

    def fork(self, data: Any) -> "ExportedTools":
        """Return the tools for another run, with its own data; truncated results stay readable."""
        other, executor = copy(self), self._executor
        data = executor.data if data is None else data
        other._executor = self._create_executor(executor.registry, executor.config, executor.model, data)
        return other

    def with_data(self, data: Any) -> "ExportedTools":
        """Return the same conversation's tools with other data for the next call."""
        if data is None:
            return self
        other = copy(self)
        other._executor = copy(self._executor)
        other._executor.data = data
        return other

    # ---- definitions

    @property
    def note(self) -> str:
        """How to use the built-in tools, for the system prompt; "" if there are none."""
        return "".join(message.text for message in self._view.system_messages(""))

    @property
    def has_long_results(self) -> bool:
        """Whether a result was truncated, so that the model needs `read_result`."""
        return len(self._executor.store) > 0

    def definitions(self, *, read_result: bool = True) -> dict[str, ToolDefinition]:
        """Return the current tools by names that frameworks accept; all of them are functions."""
        registry, view = self._executor.registry, self._view
        if not view.is_current(view.profile, self._facade, view.config, False):
            # Tools were added or removed, for example by an MCP server.
            self._view = ModelView(view.profile, registry, facade=self._facade, config=view.config, defer=False)
        extra = (self._executor.read_result_tool,) if read_result and "read_result" not in registry else ()
        definitions: dict[str, ToolDefinition] = {}
        for tool in self._view.tools(extra):
            if tool.kind == "freeform":
                tool = replace(tool, parameters=FREEFORM_SCHEMA)
            definitions[tool.qualified_name.replace(".", "__")] = tool
        return definitions

    def may_ask(self, name: str) -> bool:
        """Return whether calls to a tool may need the framework to ask."""
        definition, executor = self.definitions()[name], self._executor
        tool = executor.find_tool(ToolCall("", definition.name, {}, namespace=definition.namespace))
        # A facade's name may stand for several tools.
        asks = tool is None or tool.always_ask is not None or executor.policy.judge(tool).action != "run"
        return asks and executor.approve is None

    # ---- calls

    def make_call(self, name: str, arguments: Mapping[str, Any], id: str = "") -> AnyCall:
        """Return a tool call as the model made it."""
        definition = self.definitions().get(name)
        name, namespace = (definition.name, definition.namespace) if definition is not None else (name, "")
        return self._view.interpret(ToolCall(id or f"call_{uuid4().hex[:16]}", name, dict(arguments), namespace=namespace))

    async def preview(self, call: AnyCall) -> ApprovalRequest | None:
        """Return the approval request that the framework must show before a call; None if none is needed."""
        if self._executor.approve is not None:
            return None
        return self._remember(await self._executor.preview(call))

    async def run(self, call: AnyCall, decision: Decision | None = None) -> ToolOutcome | ApprovalRequest:
        """Run a call; return the approval request instead, before it starts, if it must wait for a decision.

        `decision`: on the request that was returned before. Questions that a tool asks while it runs must be answered by
        `approve`: frameworks ask by rerunning the call from the start, which would repeat its effects.
        """
        executor, outcomes, rulings, pending = self._executor, dict[int, ToolOutcome](), dict[int, Ruling](), list[Any]()
        id, answer = base_call(call).id, None if decision is None else read_decision(decision)
        if answer is not None:
            asked, request = self._asked.pop(id, None), await executor.preview(call)
            # An answer applies to what was shown, unless it changes the arguments.
            is_changed = asked is None or (request is not None and request.arguments != asked.arguments)
            shown = request if is_changed else asked
            if shown is not None or isinstance(answer, Deny):
                rulings[0] = Ruling(shown.fingerprint if shown is not None else "", answer)
        tool = executor.find_tool(call)
        is_ordered = tool is not None and tool.ordered
        async with executor.queue.turn(UNLIMITED, is_ordered=is_ordered):  # frameworks run calls in several loops or threads
            executor.policy.begin_turn()
            while True:
                batch = CallBatch(executor, on_done=outcomes.__setitem__)
                await run_turn(executor, [(0, call)], batch, rulings=rulings, defer=lambda _, it, __: pending.append(it))
                if pending:
                    return self._remember(pending[0])
                if (question := outcomes[0].suspended) is None:
                    return outcomes[0]
                rulings[0] = Ruling(question.fingerprint, Deny("nobody can be asked while the tool runs"))

    async def run_or_refuse(self, call: AnyCall) -> ToolOutcome:
        """Run a call in a framework that cannot ask; only `approve` can."""
        outcome = await self.run(call)
        return self._executor.deny(call, None) if isinstance(outcome, ApprovalRequest) else outcome

    def _remember(self, request: Any) -> Any:
        if request is not None:
            self._asked[request.id] = request
        return request


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
        case _:
            return Deny(answer if isinstance(answer, str) and answer not in ("no", "deny", "reject") else "")
