"""The loggers of toolglot: keys reach no handler, whoever configured it.

Nothing is done for records that nobody wants.
"""

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

from toolglot.common.known_keys import known_keys
from toolglot.common.redact import REDACTED, redact

__all__ = ["STANDARD_ATTRIBUTES", "get_logger", "hide_keys"]

STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of a record that are not extra fields."""


def get_logger(name: str) -> logging.Logger:
    """Return a logger whose records have no keys.

    A filter of a parent would not do: it does not see its children's records.
    """
    logger = logging.getLogger(name)
    if _FILTER not in logger.filters:
        logger.addFilter(_FILTER)
    return logger


def hide_keys(value: Any, keys: Iterable[str], name: str = "") -> Any:
    """Hide keys in an extra field.

    A field whose name says that it is secret is hidden whatever its value looks like.
    """
    match value:
        case str():
            return _hide_in_text(value, keys, name)
        case dict():
            items = cast(dict[Any, Any], value).items()
            return {hide_keys(key, keys): hide_keys(item, keys, str(key)) for key, item in items}
        case list():
            return [hide_keys(item, keys) for item in cast(list[Any], value)]
        case tuple():
            return tuple(hide_keys(item, keys) for item in cast(tuple[Any, ...], value))
        case _:
            return _hide_in_object(value, keys)


def _hide_in_text(text: str, keys: Iterable[str], name: str) -> str:
    """Hide keys in a text; all of it, if its field has a name such as `api_key`."""
    if REDACTED in redact(f"{name}: x", by_name=True):
        return REDACTED
    return redact(text, keys, by_name=True)


def _hide_in_object(value: Any, keys: Iterable[str]) -> Any:
    """Return an object as it is, or its text without keys if it has one."""
    text = str(value)
    shown = redact(text, keys, by_name=True)
    return value if shown == text else shown


def _hide_in_field(value: Any, keys: Iterable[str], name: str) -> Any:
    """Hide keys in anything: logging never stops the work."""
    try:
        return hide_keys(value, keys, name)
    except Exception:  # a cycle, or an object without a text
        with suppress(Exception):
            return redact(repr(value), keys, by_name=True)
        return REDACTED


class _KeyFilter(logging.Filter):
    """Hides keys in a record.

    Whatever has none stays as it is, with the arguments and the exception that tools group by.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        keys = known_keys()
        try:
            message = record.getMessage()
        except Exception:  # the arguments do not fit: `logging` would print them as they are
            message = str(record.msg)
            record.args = None
        shown = redact(message, keys, by_name=True)
        if shown != message:
            record.msg = shown
            record.args = None
        for name in vars(record).keys() - STANDARD_ATTRIBUTES:
            setattr(record, name, _hide_in_field(getattr(record, name), keys, name))
        if record.exc_info and record.exc_info[0] is not None:
            text = logging.Formatter().formatException(record.exc_info)
            shown = redact(text, keys, by_name=True)
            if shown != text:
                record.exc_text = shown  # formatters print the text, and others find no exception
                record.exc_info = None
        if record.stack_info:
            record.stack_info = redact(record.stack_info, keys, by_name=True)
        return True


_FILTER = _KeyFilter()
