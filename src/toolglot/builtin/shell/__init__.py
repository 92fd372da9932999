"""Commands of a model, held by the kernel. See `tools` for what a model can call and `sandbox` for what holds them."""

from toolglot.builtin.shell.running import SessionResult, Shell, ShellOptions, ShellResult
from toolglot.builtin.shell.sandbox import Level, describe_sandbox, probe
from toolglot.builtin.shell.tools import close_shell, shell_tools

__all__ = [
    "Level",
    "SessionResult",
    "Shell",
    "ShellOptions",
    "ShellResult",
    "close_shell",
    "describe_sandbox",
    "probe",
    "shell_tools",
]
