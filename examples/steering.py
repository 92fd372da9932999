"""Send a message to an agent while it works: it reaches the model with its next request."""

import asyncio

from toolglot import Agent, Delivered, Delivery, RunDone, ToolStarted, tool


@tool
async def read_chapter(number: int) -> str:
    """Read a chapter of the book."""
    return f"Chapter {number}: it was a dark and stormy night."


agent = Agent("simulator", tools=[read_chapter])


def say(text: str, message_id: str) -> Delivery:
    """Pass a message to the run; in a server, this is another request, in any thread."""
    return agent.deliver(text, id=message_id)


async def main() -> None:
    """Run the agent, and speak while its tool runs."""
    async for event in agent.stream('call read_chapter {"number": 1}'):
        match event:
            case ToolStarted(call=call):
                print(call.name, call.arguments)
                delivery = say("say In one word: stormy.", "m1")
                again = say(
                    "say In one word: stormy.", "m1"
                )  # a client that is not sure sends it again
                print(delivery.id, delivery.state, again is delivery)
            case Delivered(id=id, index=index):
                print(id, "is message", index)
            case RunDone(result=result):
                print(result.text)
            case _:
                pass
    late = say("say Too late.", "m2")
    print(late.id, f"{late.state}: {late.reason}")


asyncio.run(main())

# Output:
# read_chapter {'number': 1}
# m1 queued True
# m1 is message 3
# In one word: stormy.
# m2 refused: no run is in progress on this conversation: send the message as a prompt, with run
