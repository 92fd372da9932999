"""Random histories of tools that are added, replaced, removed, deferred, found and called, with another model
in every turn.

The simulated model makes calls with odd ids, and with names that it makes up. Every call and every result
holds a token. Each request is judged: by the simulator, by the checkers of `tests/properties`, and by what
its tokens and its tools say."""

import asyncio
import random
import re
from typing import Any

from tests.agent_kit import change
from tests.properties.legality import find_refusals, illegal
from tests.wire.id_histories import IDS, read_events

from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import ToolglotError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.deferral import Defer
from toolglot.providers.profile import Profile
from toolglot.simulator.core import Script, Simulator
from toolglot.tools.config import RetryConfig
from toolglot.tools.tool import Tool, tool_from_schema
from toolglot.values.messages import Block, Reply, Text, ToolCall
from toolglot.values.request import Request, ToolDefinition, effective_tools
from toolglot.wire.codec import decode_request
from toolglot.wire.request_decoding import is_search_name

Doc = dict[str, Any]
MODELS = (
    *("anthropic/claude-opus-4-8", "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-5"),
    *(
        "openai-responses/gpt-5.6",
        "openai-responses/gpt-5.1",
        "openai-chat/gpt-4o",
        "mistral/mistral-large-latest",
    ),
    *("gemini/gemini-3-pro-preview", "gemini/gemini-2.5-flash", "ollama/qwen3"),
)
PLAIN_NAMES = ("alpha", "beta", "gamma", "delta", "omega")
ODD_NAMES = (
    *(
        "mcp__server__" + "long_" * 11,
        "mcp__server__" + "long_" * 12,
        "mcp__other__" + "x" * 90,
        "y" * 128,
        "z" * 64,
        "z" * 65,
    ),
    *("naïve.tool", "a.b", "a_b", "a b", "9lives"),
)
# the last one is what naïve.tool becomes
MADE_UP = ("nothing", "née", "n" * 90, "a.b:c", "na_ve_tool_87f2e1")


def make_tool(name: str, version: int) -> Tool:
    """Make a tool whose description and schema have its name and version; its result has the number of the
    call.
    """

    def answer(**arguments: str) -> str:
        return arguments[f"v{version}"].replace("call", "result")

    schema = {
        "type": "object",
        "properties": {f"v{version}": {"type": "string"}},
        "required": [f"v{version}"],
        "additionalProperties": False,
    }
    return tool_from_schema(name, f"Tool <{name}> <v{version}>.", schema, answer, effects="read")


def read_version(tool: ToolDefinition) -> tuple[str, int] | None:
    """Return the name and the version of one of our tools, as its description and its schema say."""
    match = re.match(r"Tool <(.*?)> <v(\d+)>\.", tool.description)
    if match is None:
        return None
    has_schema = f'"v{match[2]}"' in dumps_text(tool.parameters)
    return (match[1], int(match[2])) if has_schema else (match[1], -1)


class Storm:
    """One history: an agent, the tools that it should have, and a transport that judges what is sent."""

    def __init__(self, seed: int, *, is_odd: bool) -> None:
        self.random, self.is_odd = random.Random(seed), is_odd
        self.names = (*PLAIN_NAMES, *self.random.sample(ODD_NAMES, 4)) if is_odd else PLAIN_NAMES
        self.ids = self.random.sample(IDS, self.random.randint(1, 5)) if is_odd else [""]
        self.versions = dict.fromkeys(self.random.sample(self.names, 2), 1)
        self.newest = dict(self.versions)
        self.calls: list[str] = []  # tokens, as the model has made them
        # token of a call -> of its result; only of those that must have succeeded
        self.results: dict[str, str] = {}
        self.problems: list[str] = []
        self.request_count = 0
        self.agent = Agent(self._open_engine(), tools=[make_tool(*item) for item in self.versions.items()])

    def _open_engine(self) -> Any:
        transport = JudgingTransport(self)
        return create_engine(
            f"simulator:{self.random.choice(MODELS)}", transport=transport, retry=RetryConfig(max_retries=0)
        )

    # ---- what happens

    async def play(self, turns: int) -> None:
        for turn in range(turns):
            for _ in range(self.random.randint(0, 3)):
                self._change_tools()
            if self.random.random() < 0.3:
                data = self.agent.save()
                self.agent.restore(data)
            self.agent.switch(self._open_engine())
            try:
                await self.agent.run(f"Turn {turn}.")
            except ToolglotError as error:
                self.problems.append(f"turn {turn}, {self.agent.view().engine.name}: {error!r:.300}")
            if self.problems:
                return

    def _change_tools(self) -> None:
        name = self.random.choice(self.names)
        match self.random.choice(("put", "put", "put", "remove", "defer", "many")):
            case "put":
                version = self.newest.get(name, 0) + 1
                self.agent.add_tools([make_tool(name, version)], replace=True)
                self.versions[name] = self.newest[name] = version
            case "remove" if name in self.versions and len(self.versions) > 1:
                self.agent.remove_tools([name])
                del self.versions[name]
            case "defer":
                rules: tuple[Defer, ...] = (None, True, False, [name], ["t*"])
                change(self.agent, defer=self.random.choice(rules))
            case "many" if self.random.random() < 0.1 and "t0" not in self.versions:
                for number in range(self.random.choice((12, 130))):
                    self.agent.add_tools([make_tool(f"t{number}", 1)])
                    self.versions[f"t{number}"] = self.newest[f"t{number}"] = 1
            case _:
                pass

    def reply(self, request: Request) -> Reply:
        """Say what the model says to a request."""
        rounds = 0
        for message in reversed(request.messages):
            if message.role == "user" and not message.results and message.text.startswith("Turn "):
                break
            rounds += message.role == "assistant"
        tools = [tool for tool in effective_tools(request).declared if tool.kind != "hosted"]
        if rounds >= self.random.randint(0, 4) or not tools:
            return Reply((Text("done"),))
        blocks: list[Block] = [Text("so")] if self.random.random() < 0.2 else []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            tool = self.random.choice(tools)
            blocks.append(self._search(tool, request) if is_search_name(tool.name) else self._call(tool))
        return Reply(tuple(blocks), "tools")

    def _search(self, tool: ToolDefinition, request: Request) -> ToolCall:
        parameter = next(iter((tool.parameters or {}).get("properties", {"query": None})))
        return ToolCall(
            "", tool.name, {parameter: f"select:{self.random.choice(self.names)}"}, namespace=tool.namespace
        )

    def _call(self, tool: ToolDefinition) -> ToolCall:
        token = f"call{len(self.calls):06d}"
        self.calls.append(token)
        id, known = self.random.choice(self.ids), read_version(tool)
        if known is None or self.random.random() < 0.1:  # a tool of the loop, or one that there is not
            name = tool.name if known is None else self.random.choice(MADE_UP if self.is_odd else MADE_UP[:3])
            return ToolCall(id, name, {"x": token})
        if known[0] in self.versions:
            self.results[token] = token.replace("call", "result")
        return ToolCall(id, tool.name, {f"v{known[1]}": token}, namespace=tool.namespace)

    # ---- what is judged

    def judge(self, profile: Profile, request: HttpRequest) -> None:
        """Judge a request that is sent."""
        body = loads_object(request.body)
        self.request_count += 1
        problems = [
            *illegal(profile, body),
            *find_refusals(profile, body, beta="anthropic-beta" in request.headers),
        ]
        problems += [*self.judge_pairs(profile, body), *self.judge_tools(profile, body)]
        self.problems += [f"{profile.id}/{profile.model}: {problem}" for problem in problems]

    def judge_pairs(self, profile: Profile, body: Doc) -> list[str]:
        calls: dict[str, str] = {}
        answers: dict[str, str] = {}
        order: list[str] = []
        wrong: list[str] = []
        for kind, id, token in read_events(profile.wire, body):
            if kind == "call":
                wrong += [f"the id {id!r} came twice"] if id in calls else []
                calls[id] = token
                order += [token] if token else []
            elif calls.get(id):
                answers[calls[id]] = token
        expected = [token for token in self.calls if token in order]
        if order != expected or len(order) != len(self.calls):
            wrong.append(f"calls {order} instead of {self.calls}")
        for token in order:
            result, wanted = answers.get(token, "none"), self.results.get(token)
            if result != wanted if wanted else result not in ("", token):
                wrong.append(f"{token}: {result!r} instead of {wanted!r}")
        return wrong

    def judge_tools(self, profile: Profile, body: Doc) -> list[str]:
        request = decode_request(profile.wire, body, profile=profile.id, model=profile.model)
        offered = effective_tools(request)
        declared = dict(filter(None, map(read_version, offered.declared)))
        deferred = dict(filter(None, map(read_version, offered.deferred)))
        wrong = [
            f"{name} is declared with v{version}"
            for name, version in declared.items()
            if self.versions.get(name) != version
        ]
        limit, deferral = profile.limits.tools, self.agent.view().deferral
        if limit is not None and len(self.versions) >= limit:  # some are left out
            return wrong
        hidden = deferral.names if deferral is not None else frozenset[str]()
        missing = self.versions.keys() - hidden - declared.keys() - deferred.keys()
        return wrong + [f"{name} is not declared" for name in sorted(missing)]


class JudgingTransport(SimulatedTransport):
    """The simulator; every request is judged before it is answered."""

    def __init__(self, storm: Storm) -> None:
        super().__init__(Simulator(Script([storm.reply] * 200)))
        self._storm = storm

    async def send(self, request: HttpRequest) -> HttpResponse:
        self._storm.judge(self._storm.agent.view().engine.profile, request)
        return await super().send(request)


def play_history(seed: int, *, is_odd: bool) -> tuple[int, list[str]]:
    """Play one history. Returns how many requests were judged, and what was wrong."""
    storm = Storm(seed, is_odd=is_odd)
    asyncio.run(storm.play(storm.random.randint(2, 6)))
    return storm.request_count, [f"history {seed}: {problem}" for problem in storm.problems]
