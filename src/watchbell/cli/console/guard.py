"""How a command ends: exit codes, and failures in one line instead of a traceback.

0 fine, 1 the operation failed, 2 wrong usage (typer's), 128 + n after signal n.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec

import typer

from watchbell.cli.console.output import print_error, silence_closed_pipe, silence_failed_output
from watchbell.errors import WatchbellError

P = ParamSpec("P")


def is_debugging() -> bool:
    """Whether WATCHBELL_DEBUG asks for tracebacks."""
    return os.environ.get("WATCHBELL_DEBUG", "") not in ("", "0")


def guarded(command: Callable[P, int]) -> Callable[P, None]:
    """Make a typer command of a function that returns its exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
        except (typer.Exit, typer.BadParameter):
            raise
        except BrokenPipeError:
            silence_closed_pipe()
            code = 0  # whoever read had enough
        except KeyboardInterrupt:
            code = 130
        except Exception as error:  # noqa: BLE001 - the border to the shell
            report(error)
            code = 1
            silence_failed_output()
        raise typer.Exit(code)

    return run


def report(error: Exception) -> None:
    """Tell of a failure in one line; with WATCHBELL_DEBUG the traceback stands before it."""
    if is_debugging():
        traceback.print_exception(error)
    if isinstance(error, (WatchbellError, OSError)):
        print_error(str(error))
        return
    print_error(
        f"unexpected {type(error).__name__}: {error} (a bug: please report it, with the traceback that "
        "WATCHBELL_DEBUG=1 shows)"
    )


def start_logging() -> None:
    """Have warnings of the library, and of what it uses, printed as lines on standard error."""
    root = logging.getLogger()
    if not any(isinstance(handler, _OneLine) for handler in root.handlers):
        root.addHandler(_OneLine(logging.WARNING))


class _OneLine(logging.Handler):
    """Prints each record as one line, on whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = f"{record.levelname.lower()}: {record.getMessage()}"
            if record.exc_info is not None and record.exc_info[1] is not None:
                error = record.exc_info[1]
                text += f" ({type(error).__name__}: {error})"
                if is_debugging():
                    traceback.print_exception(error)
            print_error(text)
        except Exception:  # noqa: BLE001 - what logging itself asks of a handler
            self.handleError(record)
