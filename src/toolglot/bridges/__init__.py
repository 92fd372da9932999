"""Bridges to other frameworks: their tools and messages are imported, ours are exported.

Each module is for one framework, which the user installs: it is not loaded until its module is imported.
"""

from toolglot.bridges.messages import ExportedMessages as ExportedMessages
from toolglot.bridges.messages import export_messages as export_messages
from toolglot.bridges.messages import import_messages as import_messages

__all__ = ["ExportedMessages", "export_messages", "import_messages"]
