"""`python watched_program.py PROGRAM REPORT` runs a program, and writes the exception that ends it to REPORT.

Only the standard library: the program finds nothing imported that it did not import itself.
"""

import runpy
import sys
from pathlib import Path


def main() -> None:
    program, report = sys.argv[1:]
    sys.argv = [program]
    try:
        runpy.run_path(program, run_name="__main__")
    except BaseException as error:
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}."
        Path(report).write_text(f"{module}{kind.__qualname__}: {error}", encoding="utf-8")


if __name__ == "__main__":
    main()
