"""`python -m toolglot`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # the current directory: a module in it must not take the place of one that toolglot imports
        del sys.path[0]
    from toolglot.cli.entry import main

    main()
