"""Entry point of the program. It handles Ctrl-C even while modules are still being imported."""

import sys


def main() -> None:
    """Run `toolglot`."""
    try:
        from toolglot.cli.main import main as run_main

        run_main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
