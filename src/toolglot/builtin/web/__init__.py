"""The web: search it, open its pages in a real browser, find text in them.

Everything that a page loads comes through one gate, which judges each address by its number: what is not public is refused.
"""

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.tools import web_tools

__all__ = ["WebClient", "WebConfig", "web_tools"]
