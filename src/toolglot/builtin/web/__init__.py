"""The web: search it, open its pages in a real browser, find text in them.

Everything that a page loads comes through one gate, which judges each address by its number: what is not public is refused.
"""

from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.tools import web_tools
from toolglot.builtin.web.web import Web

__all__ = ["Web", "WebConfig", "web_tools"]
