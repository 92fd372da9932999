"""Damage saved runs: byte by byte, and value by value.

Only toolglot's own errors come, and nothing runs that was not shown.
"""

import asyncio
import json
import random
from functools import cache

from tests.loop.agents import PROVIDERS, make_agent
from tests.loop.test_approval_data import PUT, WRITES, Vault, mutate

from toolglot.errors import ToolglotError
from toolglot.loop.agent.agent import Agent
from toolglot.values.approvals import ApprovalRequest

PROMPT = f'think What first?\nsay now\n{PUT} call get {{"key": "a"}}'
SHOWN = "put a=1"


@cache
def save_paused_run(provider: str) -> tuple[bytes, ApprovalRequest]:
    """Return a run that waits for an approval, with some history, and what was shown."""

    async def pause() -> tuple[bytes, ApprovalRequest]:
        agent = make_agent(provider, tools=Vault().tools, config=WRITES)
        await agent.run('call get {"key": "b"}\nthen say hello "you" \\ ☂')
        result = await agent.run(PROMPT)
        return agent.save(), result.requests[0]

    return asyncio.run(pause())


def corrupt(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes of a file."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        end = min(len(changed), at + rng.choice([1, 1, 2, 10, 200]))
        match rng.randrange(7):
            case 0 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(changed):
                changed[at] = rng.choice(b'"{}[],:\\0129tfn \n\r\t\0\xff\x80eE-.')
            case 2:
                del changed[at:end]
            case 3:
                changed[at:at] = rng.randbytes(rng.choice([1, 2, 20]))
            case 4:
                changed[at:at] = changed[at:end]
            case 5 if rng.random() < 0.3:
                del changed[at:]
            case _:
                other = rng.randrange(len(changed) + 1)
                changed[at:end] = changed[other : other + end - at]
    return bytes(changed)


def mutate_values(data: bytes, rng: random.Random) -> bytes:
    """Change values of the header or of a message to values of other types, which remain JSON."""
    lines = [json.loads(line) for line in data.splitlines()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        mutate(lines[0] if rng.random() < 0.4 else rng.choice(lines), rng)
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


async def try_damaged(provider: str, damaged: bytes, keys: list[str]) -> str:
    """Load a damaged run, approve what was shown, and go on; return what is wrong ("": nothing)."""
    vault = Vault()
    try:
        async with asyncio.timeout(20):
            other = Agent.load(damaged, f"simulator:{provider}", tools=vault.tools, config=WRITES)
            await other.list_pending()
            await other.resume(dict.fromkeys(keys, True))
            await other.run("say on")
    except ToolglotError:
        pass
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    allowed = [SHOWN] if keys else []
    # What only reads needs an approval too, since nobody knows whose call it is by now.
    unapproved = [call for call in vault.ran if call not in allowed]
    if unapproved or len(vault.ran) > len(allowed):
        return f"ran unasked: {vault.ran}"
    return ""


def storm(corruptions: int, mutations: int, seed: int = 25) -> tuple[int, list[str]]:
    """Damage saved runs this often in each way; return how often, and what is wrong."""

    async def play() -> list[str]:
        rng, problems = random.Random(seed), list[str]()
        for number in range(corruptions + mutations):
            provider = PROVIDERS[number % len(PROVIDERS)]
            data, request = saved[provider]
            damage = corrupt if number < corruptions else mutate_values
            damaged = data
            while damaged == data:
                damaged = damage(data, rng)
            keys: list[str] = rng.choice(
                [[], [request.id], [request.fingerprint], [request.id, request.fingerprint]]
            )
            if problem := await try_damaged(provider, damaged, keys):
                problems.append(f"{provider}, number {number}, {len(keys)} decisions: {problem}")
        return problems

    saved = {provider: save_paused_run(provider) for provider in PROVIDERS}
    return corruptions + mutations, asyncio.run(play())
