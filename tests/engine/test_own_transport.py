"""A transport of the caller's own: what it raises and returns."""

from typing import Any

import pytest
from tests.engine.scripted_transport import QUICK, ScriptedReply, ScriptedResponse, ScriptedTransport

from toolglot import Agent, SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import ConnectFailed, ConnectionLost, TimedOut, TransportError, UsageError


class OwnTransport:
    """Fails as the system does, while it sends or while it reads, then lets the simulator answer."""

    def __init__(self, *failures: OSError, reading: bool = False) -> None:
        self._failures, self._reading, self.count = list(failures), reading, 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        if not self._failures:
            return await SimulatedTransport().send(request)
        if not self._reading:
            raise self._failures.pop(0)
        return ScriptedResponse(ScriptedReply((self._failures.pop(0),)), ScriptedTransport())


def agent(transport: Any) -> Agent:
    return Agent("simulator:openai-chat", transport=transport, retry=QUICK)


@pytest.mark.parametrize(("error", "kind"), [
    (OSError("no route"), ConnectFailed),
    (ConnectionRefusedError("refused"), ConnectFailed),
    (ConnectionResetError(), ConnectionLost),
    (BrokenPipeError("pipe"), ConnectionLost),
    (TimeoutError("slow"), TimedOut),
])  # fmt: skip
@pytest.mark.parametrize("reading", [False, True], ids=["sending", "reading"])
def test_errors_of_the_system_are_retried_and_are_ours(
    error: OSError, kind: type[TransportError], reading: bool
) -> None:
    transport = OwnTransport(error, reading=reading)
    assert agent(transport).run_sync("say hi").text == "hi"
    assert transport.count == 2
    with pytest.raises(ConnectionLost if reading else kind, match=r"the transport failed: ."):
        agent(OwnTransport(*[error] * 20, reading=reading)).run_sync("say hi")


def test_a_transport_that_returns_no_response_is_a_clear_error() -> None:
    class Forgetful:
        async def send(self, request: HttpRequest) -> None:
            pass

    message = "send of Forgetful must return an HttpResponse: NoneType has no status, headers, read, close"
    with pytest.raises(UsageError, match=message):
        agent(Forgetful()).run_sync("say hi")
