"""DATA: our own names: the base tools as they are. For models whose harness is not known."""

from toolglot.facades.view import Facade

__all__ = ["TABLES"]

# One tool to edit with: models that were not trained on patches fail at them too often.
_SHOWN = frozenset(
    {
        *("read", "write", "edit", "multi_edit", "view_image", "notebook_edit", "read_many", "list_dir", "grep", "glob"),
        *("shell", "shell_output", "shell_kill", "shell_list", "ast_search", "ast_rewrite"),
        *("web_search", "web_open", "web_find", "todo", "ask_user", "memory"),
    }
)
_NOTE = (
    "Read files with read, find them with glob and grep, change them with edit, run commands with shell. "
    "Read a file before you change it."
)
TABLES = (Facade(id="neutral", title="our own names", views=(), shows=_SHOWN, note=_NOTE),)
