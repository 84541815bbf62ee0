"""`python -m watchbell` is the program `watchbell`."""

from __future__ import annotations

import sys

__all__ = ["main"]

_NEEDED = ("prompt_toolkit", "rich", "typer")


def main() -> int:
    """Run the program and return its exit code; without the extra that it needs, say which that is."""
    try:
        from watchbell.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write("watchbell: the program needs an extra: pip install 'watchbell[cli]'\n")
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
