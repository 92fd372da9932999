"""A program as a user writes it: every public type that it relies on is checked, strictly, against the
installed package.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, assert_type

from pydantic import BaseModel

from toolglot import (
    Agent,
    ApprovalRequest,
    BuiltinOptions,
    Case,
    Context,
    ContextPolicy,
    Decision,
    Effect,
    Facade,
    Field,
    Hooks,
    HttpRequest,
    HttpResponse,
    Options,
    PromptContext,
    Rate,
    RetryConfig,
    Root,
    RunDone,
    RunResult,
    ShellOptions,
    SimulatedTransport,
    Timeouts,
    Tool,
    ToolCall,
    ToolChoice,
    ToolConfig,
    Transport,
    UserQuestion,
    Veto,
    View,
    WebConfig,
    coding_tools,
    find_facade,
    from_config,
    tool,
)


@dataclass
class User:
    name: str


class City(BaseModel):
    name: str
    population: int


@tool
def look_up(city: str, *, context: Context[User]) -> int:
    """Look up a population."""
    assert_type(context.data, User)
    return len(city) + len(context.data.name)


@tool
def greet(context: Context[User], greeting: str = "Hello") -> str:
    """Greet the user."""
    return f"{greeting}, {context.data.name}"


@tool(timeout=5)
async def rename(name: str, context: Context[User]) -> None:
    """Rename the user."""
    context.data.name = name


@tool
def log_in(name: str, attempts: int, context: Context[User]) -> bool:
    """Log in."""
    return context.data.name == name and attempts < 3


@tool
def count_people(context: Context[City]) -> int:
    """Count the people of the city."""
    return context.data.population


@tool
def echo(text: object) -> str:
    """Return a text."""
    return str(text)


@tool(effects="write", timeout=5)
async def store(city: str, population: int = 0) -> bool:
    """Store a population."""
    return bool(city) and population > 0


class Atlas:
    @tool
    def describe(self, context: Context[User], city: str) -> str:
        """Describe a city."""
        return f"{city}, as {context.data.name} knows it"

    def __call__(self, city: str) -> str:
        """Look a city up."""
        return city

    @tool(effects={"read"})
    def count(self, prefix: str) -> int:
        """Count the cities with a prefix."""
        return len(prefix)


def ping() -> str:
    """Answer."""
    return "pong"


async def approve(request: ApprovalRequest) -> Decision:
    effects: frozenset[Effect] = request.effects
    return "yes" if "write" in effects and request.tool == "store" else "no"


class CountingTransport:
    """Any object with `send` is a Transport."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.count = inner, 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        return await self.inner.send(request)


class NoSecrets(Hooks):
    async def before_tool(self, call: ToolCall) -> Veto | None:
        return Veto("that is a secret") if call.arguments and "secret" in call.arguments.values() else None


def system(context: PromptContext[User]) -> str:
    return f"You help {context.data.name} with {len(context.tools)} tools."


def build(transport: Transport) -> Agent[User, City]:
    return Agent(
        "simulator:anthropic",
        tools=[look_up, store, Atlas().count, ping],
        system=system,
        config=ToolConfig(
            ask={"write"},
            allow=["look_up", "store"],
            rates={"look_up": Rate(10, 60)},
            retry=RetryConfig(max_retries=1),
        ),
        output_type=City,
        approve=approve,
        options=Options(max_tokens=500, stop=["END"]),
        context=ContextPolicy(when_full="trim"),
        hooks=[NoSecrets()],
        data=User("Ada"),
        transport=transport,
    )


def check_tools() -> None:
    assert_type(Atlas().count("a"), int)
    tools: list[Tool] = [look_up, store]
    assert [tool.name for tool in tools] == ["look_up", "store"]


async def main() -> None:
    assert_type(await store("Oslo", population=1), bool)
    transport = CountingTransport(SimulatedTransport())
    agent = build(transport)
    result = await agent.run("respond in JSON", data=User("Bob"))
    assert_type(result, RunResult[City])
    assert_type(result.output.population, int)
    answer = await agent.run("a number", output_type=int, tool_choice=ToolChoice("none"), allow={"look_up"})
    assert_type(answer.output, int)
    await agent.run("a number", tool_choice="required")
    ToolConfig(tool_choice="look_up")
    async for event in agent.stream("again"):
        if isinstance(event, RunDone):
            print(event.result.text, transport.count)


async def check_inference(agent: Agent[User, City]) -> None:
    inferred = Agent("simulator", output_type=City, data=User("Eve"))
    assert_type(inferred, Agent[User, City])
    numbers = Agent("simulator", output_type=list[int])
    assert_type((await numbers.run("a list")).output, list[int])
    assert_type((await numbers.run("a city", output_type=City)).output, City)
    assert_type(numbers.run_sync("a city", output_type=City).output, City)
    assert_type(numbers.run_sync("numbers").output, list[int])
    either = Agent[None, City | None]("simulator", output_type=City | None)
    assert_type((await either.run("maybe")).output, City | None)
    resumed = Agent.load(agent.save(), "simulator", output_type=City, data=User("Eve"))
    assert_type(resumed, Agent[User, City])
    configured = from_config("simulator", output_type=City, data=User("Eve"))
    assert_type(configured, Agent[User, City])
    headers: Mapping[str, str] = {"x-team": "atlas"}
    agent.switch("openai:gpt-5.1", key="test", headers=headers)


class UserCity(User, City):
    """What tools for a User and tools for a City need."""


class Guide(Agent[User, str]):
    """An agent of one's own, which is made with something else."""

    def __init__(self, name: str, greetings: int) -> None:
        super().__init__("simulator", tools=[greet], data=User(name * greetings))


def check_needs(both: UserCity, search: Callable[..., str]) -> None:
    """Tools get the data that their Context has, and anything that can be called is a tool."""
    greeting = greet(context=Context[User](ToolCall("1", "greet")), greeting="Hi")
    assert_type(greeting, str)
    needs_user: Tool[..., str, User] = greet
    everything: list[Tool] = [needs_user, store, count_people]
    Agent("simulator", tools=[greet, rename, log_in, Atlas().describe, echo, store], data=User("Ada"))
    Agent("simulator", tools=[greet, count_people], data=both)
    Agent("simulator", tools=[greet, Atlas(), partial(ping), search, len, City, ping], data=User("Eve"))
    Agent("simulator", tools=[Atlas(), partial(ping), search, len, City, ping, echo, store], data=3)
    Agent("simulator", tools=everything, data=3)
    agent = Agent("simulator", tools=[greet])
    agent.add_tools([rename, ping])
    Agent("simulator", tools=[greet, count_people])  # no one type: a run's data is not compared with them
    Guide("Ada", greetings=1)


def check_unmet_needs() -> None:
    Agent("simulator", tools=[greet], data=3)  # type: ignore[misc]
    Agent("simulator", tools=[rename], data="Ada")  # type: ignore[misc]
    Agent("simulator", tools=[log_in], data=3)  # type: ignore[misc]
    Agent("simulator", tools=[store, greet], data=3)  # type: ignore[list-item]
    Agent("simulator", tools=[Atlas().describe], data=3)  # type: ignore[misc]
    Agent("simulator", tools=[greet, count_people], data=User("Ada"))  # type: ignore[list-item]
    Agent[City, str]("simulator", tools=[greet])  # type: ignore[list-item]
    Agent[City, str]("simulator").add_tools([greet])  # type: ignore[list-item]


async def check_mistakes(agent: Agent[User, City]) -> None:
    """Each of these is an error to type checkers, else the comment is one."""
    await store(3)  # type: ignore[arg-type]
    await agent.run("hi", data="Bob")  # type: ignore[call-overload]
    learned = Agent("simulator", tools=[greet])  # what its tool needs is all that it knows
    assert_type(learned, Agent[User, Any])
    await learned.run("hi", data="Bob")  # type: ignore[call-overload]
    Agent("simulator", tool=[store])  # type: ignore[call-arg]
    agent.switch("openai:gpt-5.1", keys="test")  # type: ignore[call-arg]
    tool(look_up, effect="read")  # type: ignore[call-overload]
    ToolConfig(ask={"destroy"})  # type: ignore[arg-type]


def answer(questions: list[UserQuestion]) -> list[str]:
    return [question.options[0].label for question in questions]


def check_builtin_tools(directory: Path) -> list[Tool]:
    """Options of the built-in tools, and a facade of one's own."""
    options = BuiltinOptions(
        other_roots=[Root(directory, writable=False)],
        unprotected={".vscode"},
        shell=ShellOptions(network=False, hidden=[directory / "keys"], processes=64),
        web=WebConfig(browser="none", allow_private=["localhost"], brave_key=lambda: None),
    )
    show = View(
        name="show",
        description="Show a file.",
        parameters={"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]},
        cases={"": Case(base="read", fields=[Field("file", "path")])},
        aliases=["cat"],
    )
    facade = Facade(id="mine", title="Mine", views=[show], hides=["grep"])
    tools = coding_tools(directory, options=options, ask_user=answer, names=["read", "ask_user"])
    assert_type(Agent("simulator", tools=tools, facade=facade).view().model_view.facade is None, bool)
    return tools


TIMEOUTS = Timeouts(connect=5, idle=None)
FACADE_ID: str = find_facade("claude-code").id

if __name__ == "__main__":
    check_tools()
    check_builtin_tools(Path.cwd())
    asyncio.run(main())
