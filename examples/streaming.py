"""Show text and tool calls while they happen."""

import asyncio

from toolglot import Agent, RunDone, TextDelta, ToolFinished, ToolStarted, tool


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    """Print the events of one run."""
    agent = Agent("simulator", tools=[add])
    async for event in agent.stream('call add {"a": 2, "b": 3}'):
        match event:
            case ToolStarted(call=call):
                print(f"running {call.name} {call.arguments}")
            case ToolFinished(outcome=outcome):
                print(f"result {outcome.result.text}")
            case TextDelta(text=text):
                print(text, end="")
            case RunDone(result=result):
                print(f"\n({result.stop} after {result.iterations} requests)")
            case _:
                pass


asyncio.run(main())

# Output:
# running add {'a': 2, 'b': 3}
# result 5
# Here is what came back. add: 5.
# (end after 2 requests)
