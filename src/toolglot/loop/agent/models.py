"""The models of an agent: the one that is asked now, those to fall back on, and the connections that were
opened to them.
"""

from collections.abc import Iterable
from typing import Any, cast

from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.engine.transport import Transport
from toolglot.loop.agent.config import check_option
from toolglot.providers.catalog import select_row, split_model

__all__ = ["Models"]

_SHARED_OPTIONS = ("transport", "retry", "heal", "strict")  # options that are not specific to a provider


class Models:
    """The current model and those that may replace it."""

    def __init__(
        self, model: str | Engine, options: EngineOptions, fallbacks: Iterable[str | Engine] = ()
    ) -> None:
        check_option("model", model)
        self._opened_transports = set[Transport]()
        self._fallbacks = tuple(fallbacks)
        for fallback in self._fallbacks:
            check_option("model", fallback, shown_as="fallbacks")
        self.engine = self._open(model, {**options})
        self._options: dict[str, Any] = {**options}
        self._options_profile = self.engine.profile.id

    def switch(self, model: str | Engine, options: EngineOptions) -> None:
        """Ask another model from now on."""
        if not options:
            self.engine = self.create_engine(model)
            return
        shared = {name: value for name, value in self._options.items() if name in _SHARED_OPTIONS}
        merged: dict[str, Any] = {**shared, **options}
        self.engine = self._open(model, merged)
        self._options, self._options_profile = merged, self.engine.profile.id

    def use_fallback(self, used: int) -> int | None:
        """Switch to the next fallback after the first `used`.

        Return the new number used, or None if none is left.
        """
        for index in range(used, len(self._fallbacks)):
            fallback = self._fallbacks[index]
            other = self.create_engine(fallback)
            is_same = other is self.engine if isinstance(fallback, Engine) else other.name == self.engine.name
            if not is_same:
                self.engine = other
                return index + 1
        return None

    def create_engine(self, model: str | Engine) -> Engine:
        """Return an engine for another model, with those options of the current engine that apply to it."""
        if isinstance(model, Engine):
            return model
        options = self._options
        # another provider must not get this one's key
        if select_row(*split_model(model)) != self._options_profile:
            options = {name: options[name] for name in _SHARED_OPTIONS if name in options}
        return self._open(model, options)

    def _open(self, model: str | Engine, options: dict[str, Any]) -> Engine:
        if isinstance(model, Engine):
            return model
        engine = create_engine(model, **cast(EngineOptions, options))
        if options.get("transport") is None:  # a transport that was passed belongs to the caller
            self._opened_transports.add(engine.transport)
        return engine

    async def aclose(self) -> None:
        """Close the connections that were opened here."""
        for transport in self._opened_transports:
            if (close := getattr(transport, "close", None)) is not None:
                await close()
