"""Shell commands of a model, sandboxed by the kernel: `tools` has what a model can call, `sandbox` what confines it."""

from toolglot.builtin.shell.manager import ShellManager, ShellOptions
from toolglot.builtin.shell.results import SessionInfo, ShellResult
from toolglot.builtin.shell.sandbox import SandboxLevel
from toolglot.builtin.shell.sandbox_probe import describe_sandbox, probe_sandbox
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
