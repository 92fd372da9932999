"""The requests of one run: each goes to the model that the agent has then, and fits its context window."""

from inspect import isawaitable
from typing import Any

from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.engine.engine import EngineState
from toolglot.errors import ToolglotError, UsageError
from toolglot.loop.agent_core import AgentCore
from toolglot.loop.context_window import SUMMARY_PROMPT, Truncation, count_phrase, elide_middle, render_transcript
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.offer import Offer
from toolglot.loop.run import AskModel
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL, StructuredOutput
from toolglot.providers.tokens import estimate_message, estimate_text, estimate_tool
from toolglot.values.events import ContextTruncated
from toolglot.values.messages import Usage, user
from toolglot.values.request import Output, Request, ToolChoice, ToolDefinition

__all__ = ["RequestBuilder"]

log = get_logger("toolglot.loop")


class RequestBuilder:
    """Builds the requests of one run. Calls are made by whoever was shown the tools: `state.caller`."""

    def __init__(
        self,
        agent: AgentCore,
        state: ConversationState,
        structured_output: StructuredOutput | None,
        instructions: str,
        data: Any = None,
    ) -> None:
        self.agent, self.state, self.structured_output = agent, state, structured_output
        self._data = data
        self._instructions = instructions
        self.estimated_tokens = 0
        """Of the next request, or the last one."""
        self._overhead: tuple[tuple[ToolDefinition, ...] | None, int, int] = (None, 0, 0)  # of which tools, after which change
        self._configs = (agent.config, state.apply_settings(agent.config))  # the agent's, and that of the run
        self.view = agent.view(config=self._configs[1])
        """What the model sees that is asked now, or was asked last. `engine_state` sets it once per request."""
        self.offer: Offer
        """What the model may call in the reply to the last request."""
        self.engine_state()

    def engine_state(self) -> EngineState:
        """Return the state of the engine that is asked now, and note who makes the calls of its reply."""
        agent = self.agent
        if self._configs[0] is not agent.config:
            self._configs = (agent.config, self.state.apply_settings(agent.config))
        config = self._configs[1]
        output, answer_tool = self.structured_output, None
        if output is not None:
            answer_tool = output.answer_tool(agent.engine.profile, with_tools=len(agent.registry) > 0)
        loop_tools = agent.loop_tools(self.state, answer_tool)
        if not self.view.is_current(agent.engine.profile, agent.facade, config, agent.defer, agent.code_language(agent.engine)):
            self.view = agent.view(config=config)
        view = self.view
        self._all_tools = view.tools(loop_tools)
        self._tools = self.state.head_tools(view, self._all_tools)
        unloaded = self._find_unloaded() if view.search_tool is not None else {}
        self.state.caller = agent.make_caller(self.state, view, loop_tools, unloaded, self._data)
        state = self.state.engine_state(agent.engine, agent.config)
        state.telemetry = self.state.telemetry
        return state

    def _find_unloaded(self) -> dict[str, ToolDefinition]:
        """Return the tools whose definitions the model has not seen, by name."""
        offered = self.state.timeline.offered_tools(self._tools, self.state.meter.truncation.start)
        names = {tool.qualified_name for tool in offered}
        return {name: tool for tool in self._all_tools if tool.deferred and (name := tool.qualified_name) not in names}

    def build_request(self, step: AskModel, stream: bool) -> Request:
        """Return the request for a step of the run."""
        agent, output, view = self.agent, self.structured_output, self.view
        tools, choice = self._tools, view.map_tool_choice(step.tool_choice)
        has_answer_tool = FINAL_ANSWER_TOOL in self.state.caller.added_tools
        if output is not None and output.failures and has_answer_tool and not step.last:
            choice = ToolChoice("required", (FINAL_ANSWER_TOOL,))  # the model answered in plain text
        if choice is not None and choice.names and any(tool.deferred and choice.includes(tool) for tool in tools):
            # A tool that is to be called is shown, found or not; it has been called then, and stays.
            tools = self._tools = tuple(replace(tool, deferred=tool.deferred and not choice.includes(tool)) for tool in tools)
        return Request(
            agent.engine.model,
            self.state.visible_messages(view, self._instructions),
            tools,
            choice if tools else None,
            agent.config.parallel if tools else None,
            agent.options,
            Output(output.schema) if output is not None and not has_answer_tool else None,
            stream,
        )

    def note_sent(self, request: Request) -> None:
        """Remember what a request, as the hooks left it, allows the model to call."""
        self.offer = Offer(request, self.view, self._tools, self._all_tools)

    # ---- the context window

    async def fit_context(self, *, was_rejected: bool = False) -> tuple[ContextTruncated, Usage] | None:
        """Leave out older messages if the next request would be too long, or the last one was rejected as such.

        Returns the event that tells of it and what the summary cost; None if nothing was left out.
        """
        agent, conversation, meter = self.agent, self.state.conversation, self.state.meter
        policy, profile, tools = agent.context, agent.engine.profile, self._tools
        changes = self.state.timeline.change_count
        if self._overhead[0] is not tools or self._overhead[1] != changes:  # estimated again only when the tools change
            system_messages = self.view.system_messages(self._instructions)
            offered = self.state.timeline.offered_tools(tools, self.state.meter.truncation.start)
            tokens = sum(map(estimate_message, system_messages)) + sum(map(estimate_tool, offered))
            self._overhead = (tools, changes, tokens)
        overhead = self._overhead[2]
        before = self.estimated_tokens = meter.estimate_tokens(conversation, profile, overhead)
        if policy.when_full == "off":
            return None
        budget = meter.token_budget(profile, policy, agent.options.max_tokens)
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
        summary = elide_middle(summary, max(400, budget))
        meter.truncation = replace(truncation, summary=summary)
        after = self.estimated_tokens = meter.estimate_tokens(conversation, profile, overhead)
        omitted = truncation.omitted_count(conversation)
        text = f"{count_phrase(omitted)} {'summarized' if summary else 'left out'}: about {before:,} tokens, {budget:,} fit"
        return ContextTruncated(text + (f" ({problem})" if problem else ""), omitted, before, after, summary), usage

    async def _summarize(self, truncation: Truncation, budget: int) -> tuple[str, Usage, str]:
        """Return a summary of what is going to be left out, what it cost, and why there is none."""
        agent, state = self.agent, self.state
        older = state.conversation[: truncation.start]
        try:
            if agent.summarize is not None:
                summary = agent.summarize([message for index, message in enumerate(older) if index != truncation.prompt])
                summary = await summary if isawaitable(summary) else summary
                if not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # the caller's own function
                    raise UsageError(f"summarize must return a string, not {type(summary).__name__}")
                return summary.strip(), Usage(), ""
            previous = state.meter.truncation
            # What was summarized before is in the summary already, but for the prompt that was kept.
            messages = [
                message
                for index, message in enumerate(older)
                if index != truncation.prompt and (index >= previous.start or index == previous.prompt)
            ]
            text = render_transcript(messages, previous.summary, 2 * budget)
            if (tokens := state.meter.scale_tokens(agent.engine.profile, estimate_text(text))) > budget * 0.7:
                text = render_transcript(messages, previous.summary, int(2 * budget * 0.7 * budget / tokens))
            request = Request(agent.engine.model, (user(f"{SUMMARY_PROMPT}\n\n{text}"),))
            engine_state = agent.engine.new_state(agent.config.request_rates)
            engine_state.telemetry = state.telemetry
            reply = (await engine_state.ask(request)).reply
        except ToolglotError as e:
            log.warning("the conversation could not be summarized: %s", e)
            return "", Usage(), f"it could not be summarized: {e}"
        return reply.text.strip(), reply.usage, "" if reply.text.strip() else "the model returned no summary"
