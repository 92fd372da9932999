"""Other frameworks, both ways: what is theirs is imported, and what is ours is exported.

Each module is for one framework, which is the user's own: nothing of it is loaded until its module is imported.
"""

from toolglot.bridges.messages import ExportedMessages as ExportedMessages
from toolglot.bridges.messages import export_messages as export_messages
from toolglot.bridges.messages import import_messages as import_messages

__all__ = ["ExportedMessages", "export_messages", "import_messages"]
