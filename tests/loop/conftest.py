"""Coroutine tests of the loop are watched."""

import inspect

import pytest

from .agents import run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests; a complaint of the event loop or a task that is left over is a failure."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run(
        pyfuncitem.obj(
            **{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
        )
    )
    return True
