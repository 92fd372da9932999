"""Test an agent without a provider: a scripted model, and a provider that is overloaded.

pytest runs these functions, too.
"""

from typing import Any

from toolglot import (
    Agent,
    Reply,
    Request,
    RetryConfig,
    Script,
    SimulatedTransport,
    Simulator,
    Text,
    tool,
)


@tool
def find_order(number: int) -> dict[str, Any]:
    """Find an order."""
    return {"number": number, "state": "shipped"}


def make_agent(simulator: Simulator) -> Agent:
    """Create the agent under test."""
    transport = SimulatedTransport(simulator)
    retry = RetryConfig(base=0)
    return Agent("simulator:anthropic", tools=[find_order], transport=transport, retry=retry)


def test_the_model_reads_the_result() -> None:
    """A turn of a script may be a function, which sees the request."""

    def answer(request: Request) -> Reply:
        assert "shipped" in request.messages[-1].results[0].text
        return Reply((Text("It is on its way."),))

    agent = make_agent(Simulator(Script(['call find_order {"number": 7}', answer])))
    assert agent.run_sync("Where is my order 7?").text == "It is on its way."


def test_an_overloaded_provider_is_asked_again() -> None:
    """Faults are used up one per request."""
    agent = make_agent(Simulator(Script(["say Hello."]), faults=["overloaded"]))
    assert agent.run_sync("Hi").text == "Hello."


if __name__ == "__main__":
    for test in (test_the_model_reads_the_result, test_an_overloaded_provider_is_asked_again):
        test()
        print(f"{test.__name__}: passed")

# Output:
# test_the_model_reads_the_result: passed
# test_an_overloaded_provider_is_asked_again: passed
