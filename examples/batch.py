"""Ask many questions at once: one agent, one conversation per question, at most four at a time."""

import asyncio

from toolglot import Agent, Conversation


async def main() -> None:
    """Answer ten questions."""
    agent = Agent("simulator", system="Answer briefly.")
    slots = asyncio.Semaphore(4)

    async def answer(question: str) -> str:
        async with slots:
            return (await agent.run(question, conversation=Conversation())).text

    answers = await asyncio.gather(*(answer(f"say Answer {number}") for number in range(10)))
    print(len(answers), "answers; the last one is:", answers[-1])


asyncio.run(main())

# Output:
# 10 answers; the last one is: Answer 9
