"""The web tools: search, open pages in a real browser, find text in them.

Everything that a page loads comes through one proxy, which judges each address by its number and refuses what is not public.
"""

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.tools import web_tools

__all__ = ["WebClient", "WebConfig", "web_tools"]
