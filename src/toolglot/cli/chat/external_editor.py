"""Ctrl-X Ctrl-E: the user's editor, which is never a program of the workspace."""

import os
import shlex
from contextlib import suppress

from toolglot.confine.programs import current_workspace, find_program, run_program, safe_variables

__all__ = ["open_in_editor"]

# As prompt_toolkit does it.
_VARIABLES = ("VISUAL", "EDITOR")
_EDITORS = ("/usr/bin/editor", "/usr/bin/nano", "/usr/bin/pico", "/usr/bin/vi", "/usr/bin/emacs")


def open_in_editor(filename: str) -> bool:
    """Edit a file; return whether the editor succeeded."""
    workspace = current_workspace()
    variables = safe_variables(workspace)
    for text in (*(os.environ.get(name, "") for name in _VARIABLES), *_EDITORS):
        try:
            program, *options = shlex.split(text)
        except ValueError:  # it is not set, or a quote is not closed
            continue
        if not os.path.isabs(program):
            program = find_program(program, workspace)
        with suppress(OSError):  # it does not exist, or is in the workspace
            return (
                run_program(
                    [program, *options, filename], roots=workspace, env=variables, cwd=os.getcwd()
                ).returncode
                == 0
            )
    return False
