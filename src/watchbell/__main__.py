"""`python -m watchbell` is the program `watchbell`."""

from __future__ import annotations

import os
import sys

_NEEDED = ("prompt_toolkit", "rich", "typer")


def main() -> int:
    """Run the program and return its exit code; without the extra that it needs, say which that is."""
    _open_missing_streams()
    try:
        from watchbell.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write("watchbell: the program needs an extra: pip install 'watchbell[cli]'\n")
        return 1
    return run()


def _open_missing_streams() -> None:
    """Put the null device where whoever started the program closed a standard stream.

    Otherwise the first file that is opened would get the stream's number, and with it what is printed.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        os.set_inheritable(descriptor, True)
        setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
