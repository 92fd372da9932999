"""Where the program begins: Ctrl-C is quiet from the first moment on, also while modules are loaded."""

import sys

__all__ = ["main"]


def main() -> None:
    """The entry point of `toolglot`."""
    try:
        from toolglot.cli.main import main as begin

        begin()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
