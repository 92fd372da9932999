"""Commands of a model, held by the kernel. See `tools` for what a model can call and `sandbox` for what holds them."""

from toolglot.builtin.shell.manager import SessionInfo, ShellManager, ShellOptions, ShellResult
from toolglot.builtin.shell.sandbox import SandboxLevel, describe_sandbox, probe_sandbox
from toolglot.builtin.shell.tools import close_shell, shell_tools

__all__ = [
    "SandboxLevel",
    "SessionInfo",
    "ShellManager",
    "ShellOptions",
    "ShellResult",
    "close_shell",
    "describe_sandbox",
    "probe_sandbox",
    "shell_tools",
]
