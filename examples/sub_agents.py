"""An agent works for another one: its approvals come up to the top, and survive a restart."""

from toolglot import Agent, RunLimits, Suspended, tool


@tool(effects="read")
def search(text: str) -> str:
    """Search the invoices."""
    return f"{text}: 90 dollars, due tomorrow"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


researcher = Agent("simulator:gemini", tools=[search, pay])
limits = RunLimits(max_total_tokens=50_000)  # of each run of this agent, within those of the boss
research = researcher.as_tool("research", "Research an invoice, and settle it.", limits=limits)
PROMPT = r"""
call research {"prompt": "call search {\"text\": \"invoice 7\"}\nthen call pay {\"amount\": 90}"}
"""


def ask() -> bytes:
    """Run until a person is needed; what is returned could be stored for days."""
    boss = Agent("simulator:anthropic", tools=[research])
    paused = boss.run_sync(PROMPT)
    print(paused.stop, [show(waiting) for waiting in paused.pending])
    return boss.save()


def answer(saved: bytes) -> None:
    """Continue, in another process for example."""
    boss = Agent.load(saved, tools=[research])
    [waiting] = boss.list_pending_sync()
    print(show(waiting))
    result = boss.resume_sync({waiting.fingerprint: True})
    print(result.results[0].text)  # the answer of the research agent
    print(result.usage.input + result.usage.output, "tokens, of both agents")


def show(waiting: Suspended) -> str:
    """Say which agent wants to do what; the path leads to the call."""
    request = waiting.request
    return (
        f"{len(waiting.path)} levels: {request.agent} wants to {request.tool} {request.arguments}"
    )


answer(ask())

# Output:
# approval ["2 levels: research wants to pay {'amount': 90}"]
# 2 levels: research wants to pay {'amount': 90}
# Here is what came back. search: invoice 7: 90 dollars, due tomorrow. pay: paid 90.
# 988 tokens, of both agents
