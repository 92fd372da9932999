"""The requests of one run: each goes to the model that the agent has then, and fits its context window."""

from inspect import isawaitable
from operator import is_
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.engine.engine import EngineState
from toolglot.errors import ToolglotError, UsageError
from toolglot.loop.context_window import (
    SUMMARY_PROMPT,
    Truncation,
    count_phrase,
    elide_middle,
    render_transcript,
)
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.limits import RunLimits
from toolglot.loop.offer import Offer
from toolglot.loop.run import AskModel
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL, StructuredOutput
from toolglot.providers.tokens import estimate_message, estimate_text, estimate_tool
from toolglot.tools.config import ToolConfig
from toolglot.values.events import ContextTruncated
from toolglot.values.messages import Usage, user
from toolglot.values.request import Output, Request, ToolChoice, ToolDefinition

if TYPE_CHECKING:
    from toolglot.loop.agent.setup import AgentSetup

__all__ = ["RequestBuilder", "RunParts"]

log = get_logger("toolglot.loop")


class RunParts(msgspec.Struct, frozen=True, eq=False):
    """What a run works with."""

    setup: "AgentSetup"
    state: ConversationState
    output: StructuredOutput | None
    data: Any
    instructions: str
    """The system prompt."""


class RequestBuilder:
    """Builds the requests of one run. Calls are made by whoever was shown the tools: `state.caller`."""

    def __init__(self, parts: RunParts) -> None:
        self.parts, self.setup, self.state = parts, parts.setup, parts.state
        self.estimated_tokens = 0
        """Of the next request, or the last one."""
        # of which tools, after which change
        self._overhead: tuple[tuple[ToolDefinition, ...] | None, int, int] = (None, 0, 0)
        self._seen: tuple[object, ...] = ()  # what `_look_at_agent` last saw
        self._configs = self._read_configs()
        self.view = self.setup.view(tool_config=self._configs[1])
        """What the model sees that is asked now, or was asked last. `prepare` sets it once per request."""
        self._all_tools: tuple[ToolDefinition, ...] = ()
        self.offer: Offer
        """What the model may call in the reply to the last request."""
        self.prepare()

    def _read_configs(self) -> tuple[ToolConfig, ToolConfig]:
        """Return the agent's configuration for its tools, and that of the run."""
        config = self.setup.config.config
        return config, self.state.apply_settings(config)

    @property
    def limits(self) -> RunLimits:
        """How much the run may use."""
        return self.state.settings.limits or self.setup.config.limits

    def prepare(self) -> EngineState:
        """Look at what the agent is now; return the state of the engine to ask, and note who makes the calls
        of its reply.
        """
        state, engine = self.state, self.setup.models.engine
        seen = self._look()
        if not (len(seen) == len(self._seen) and all(map(is_, seen, self._seen))):
            self._look_at_agent()
            self._seen = seen
        self._tools = state.head_tools(self.view, self._all_tools)
        if self.view.search_tool is not None:
            self._caller = replace(self._caller, unloaded_tools=self._find_unloaded())
        state.caller = self._caller
        engine_state = state.engine_state(engine, self.limits)
        engine_state.telemetry = state.telemetry
        return engine_state

    def _look(self) -> tuple[object, ...]:
        """Return all that the view, its tools and the caller depend on: while these are the same objects, so
        are they.
        """
        setup, state = self.setup, self.state
        config, engine, has_results = setup.config, setup.models.engine, bool(len(state.host.store))
        return (
            *(config, config.tools.version, setup.names, engine, engine.profile),
            *(state.settings, state.telemetry, state.has_approver, has_results),
        )

    def _look_at_agent(self) -> None:
        setup, state, output = self.setup, self.state, self.parts.output
        engine, config = setup.models.engine, setup.config
        if self._configs[0] is not config.config:
            self._configs = self._read_configs()
        answer_tool = None
        if output is not None:
            answer_tool = output.answer_tool(engine.profile, with_tools=len(config.tools) > 0)
        loop_tools = setup.loop_tools(state, answer_tool)
        if not setup.is_current(self.view, engine, self._configs[1]):
            self.view = setup.view(tool_config=self._configs[1])
        self._all_tools = self.view.tools(loop_tools)
        self._caller = setup.make_caller(state, self.view, loop_tools, {}, self.parts.data)

    def _find_unloaded(self) -> dict[str, ToolDefinition]:
        """Return the tools whose definitions the model has not seen, by name."""
        offered = self.state.timeline.offered_tools(self._tools, self.state.meter.truncation.start)
        names = {tool.qualified_name for tool in offered}
        return {
            name: tool
            for tool in self._all_tools
            if tool.deferred and (name := tool.qualified_name) not in names
        }

    def build_request(self, step: AskModel, stream: bool) -> Request:
        """Return the request for a step of the run."""
        config, output, view = self.setup.config, self.parts.output, self.view
        choice = view.map_tool_choice(step.tool_choice)
        has_answer_tool = FINAL_ANSWER_TOOL in self.state.caller.added_tools
        if has_answer_tool and output is not None and output.failures and not step.last:
            choice = ToolChoice("required", (FINAL_ANSWER_TOOL,))  # the model answered in plain text
        if choice is not None and choice.names:
            self._tools = _show_chosen(self._tools, choice)
        tools, parallel = self._tools, config.config.parallel
        if not tools:
            choice = parallel = None
        output_format = None
        if output is not None and not has_answer_tool:
            output_format = Output(output.schema)
        messages = self.state.visible_messages(view, self.parts.instructions)
        model = self.setup.models.engine.model
        return Request(model, messages, tools, choice, parallel, config.options, output_format, stream)

    def note_sent(self, request: Request) -> None:
        """Remember what a request, as the hooks left it, allows the model to call."""
        self.offer = Offer(request, self.view, self._tools, self._all_tools)

    # ---- the context window

    async def fit_context(self, *, was_rejected: bool = False) -> ContextTruncated | None:
        """Leave out older messages if the next request would be too long, or the last one was rejected as
        such.

        Returns the event that tells of it; None if nothing was left out.
        """
        config, conversation, meter = self.setup.config, self.state.conversation, self.state.meter
        policy, profile = config.context, self.setup.models.engine.profile
        before, overhead = self._measure()
        if policy.when_full == "off":
            return None
        budget = meter.token_budget(profile, policy, config.options.max_tokens)
        if was_rejected:
            budget = min(budget or before, max(1, before * 3 // 4))
        elif budget is None or before <= budget:
            return None
        truncation = meter.find_truncation(conversation, profile, overhead, int(budget * policy.keep))
        if truncation is None:
            return None
        if was_rejected:
            meter.record_rejection(profile, before, overhead)
        summary, usage, problem = "", Usage(), ""
        if policy.when_full == "compact":
            summary, usage, problem = await self._summarize(truncation, budget)
        after = self._truncate(truncation, elide_middle(summary, max(400, budget)))
        omitted = truncation.omitted_count(conversation)
        outcome = "summarized" if summary else "left out"
        text = f"{count_phrase(omitted)} {outcome}: about {before:,} tokens, {budget:,} fit"
        if problem:
            text += f" ({problem})"
        return ContextTruncated(text, omitted, before, after, summary, usage)

    async def compact(self) -> ContextTruncated | None:
        """Summarize all that can be left out; None if there is nothing.

        Raises ToolglotError if there is no summary.
        """
        config, conversation, meter = self.setup.config, self.state.conversation, self.state.meter
        profile = self.setup.models.engine.profile
        before, overhead = self._measure()
        truncation = meter.find_truncation(conversation, profile, overhead, 0)
        if truncation is None:
            return None
        budget = meter.token_budget(profile, config.context, config.options.max_tokens) or before
        summary, usage, problem = await self._summarize(truncation, budget)
        if not summary:
            raise ToolglotError(problem or "there is no summary, so nothing was left out")
        summary = elide_middle(summary, max(400, budget))
        after = self._truncate(truncation, summary)
        omitted = truncation.omitted_count(conversation)
        text = f"{count_phrase(omitted)} summarized: about {before:,} tokens before, {after:,} after"
        return ContextTruncated(text, omitted, before, after, summary, usage)

    def _measure(self) -> tuple[int, int]:
        """Return the tokens of the next request, and uncalibrated those of all but its conversation."""
        meter, tools, changes = self.state.meter, self._tools, self.state.timeline.change_count
        # estimated again only when the tools change
        if self._overhead[0] is not tools or self._overhead[1] != changes:
            system_messages = self.view.system_messages(self.parts.instructions)
            offered = self.state.timeline.offered_tools(tools, meter.truncation.start)
            tokens = sum(map(estimate_message, system_messages)) + sum(map(estimate_tool, offered))
            self._overhead = (tools, changes, tokens)
        overhead = self._overhead[2]
        profile = self.setup.models.engine.profile
        self.estimated_tokens = meter.estimate_tokens(self.state.conversation, profile, overhead)
        return self.estimated_tokens, overhead

    def _truncate(self, truncation: Truncation, summary: str) -> int:
        """Leave out what was found, and return the tokens of the next request."""
        self.state.meter.truncation = replace(truncation, summary=summary)
        return self._measure()[0]

    async def _summarize(self, truncation: Truncation, budget: int) -> tuple[str, Usage, str]:
        """Return a summary of what is going to be left out, what it cost, and why there is none."""
        state, engine, summarize = self.state, self.setup.models.engine, self.setup.config.summarize
        older = state.conversation[: truncation.start]
        try:
            if summarize is not None:
                summary = summarize(
                    [message for index, message in enumerate(older) if index not in truncation.kept]
                )
                summary = await summary if isawaitable(summary) else summary
                if not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # the caller's own function
                    raise UsageError(f"summarize must return a string, not {type(summary).__name__}")
                return summary.strip(), Usage(), ""
            previous = state.meter.truncation
            # What was summarized before is in the summary already, but for the prompt that was kept.
            messages = [
                message
                for index, message in enumerate(older)
                if index not in truncation.kept and (index >= previous.start or index in previous.kept)
            ]
            text = render_transcript(messages, previous.summary, 2 * budget)
            if (tokens := state.meter.scale_tokens(engine.profile, estimate_text(text))) > budget * 0.7:
                text = render_transcript(messages, previous.summary, int(2 * budget * 0.7 * budget / tokens))
            request = Request(engine.model, (user(f"{SUMMARY_PROMPT}\n\n{text}"),))
            engine_state = engine.new_state(self.limits.request_rates)
            engine_state.telemetry = state.telemetry
            reply = (await engine_state.ask(request)).reply
        except ToolglotError as e:
            log.warning("the conversation could not be summarized: %s", e)
            return "", Usage(), f"it could not be summarized: {e}"
        return reply.text.strip(), reply.usage, "" if reply.text.strip() else "the model returned no summary"


def _show_chosen(tools: tuple[ToolDefinition, ...], choice: ToolChoice) -> tuple[ToolDefinition, ...]:
    """Return the tools of a request.

    One that is to be called is shown, found or not; it has been called then, and stays.
    """
    if not any(tool.deferred and choice.includes(tool) for tool in tools):
        return tools
    return tuple(replace(tool, deferred=tool.deferred and not choice.includes(tool)) for tool in tools)
