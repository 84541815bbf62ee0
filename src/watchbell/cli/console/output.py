"""What the program writes to a terminal, file or pipe, and the one place that makes stored text safe for it.

Text from a log, a model or an argument goes through `escape` before it is printed. It is never taken for
markup, and a character that the console cannot print appears as an escape rather than as an error.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Sequence

import msgspec
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

LONGEST_CELL = 160
"""Most characters of one stored text in a table or on a one-line row; `--json` has all of it."""

# Controls (C0, DEL, C1); marks, embeddings, overrides and isolates of direction; line and paragraph
# separators; the byte-order mark; half surrogates; tag characters, which nobody sees.
_UNSAFE = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f"
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f{_UNSAFE}]")
_UNSAFE_IN_TEXT = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSAFE}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _PlainConsole(Console):
    """A console that leaves a closed pipe to the caller."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def escape(text: str, *, multiline: bool = False) -> str:
    r"""Return text that a terminal prints and does nothing else with.

    Control characters, and those that turn the direction of text or hide in it, become visible escapes such
    as `\x1b`.

    Args:
        text: Any text.
        multiline: Keep line ends and tabs as they are.
    """
    return (_UNSAFE_IN_TEXT if multiline else _UNSAFE_IN_LINE).sub(_visible, text)


def shorten(text: str, limit: int = LONGEST_CELL) -> str:
    """Return at most `limit` characters of a text on one line, made safe; `...` says that there was more."""
    short = " ".join(text[: 4 * limit].split(" "))
    cut = len(text) > limit
    return escape(short[: limit - 3] if cut else short) + ("..." if cut else "")


def can_print(text: str) -> bool:
    """Whether standard output can show a text as it is, such as box characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_dumb() -> bool:
    """Whether the terminal says that it can do no more than print lines."""
    return os.environ.get("TERM", "") in ("dumb", "unknown")


def screen_width() -> int:
    """Return the terminal's width in columns; elsewhere what COLUMNS says, else 80."""
    return make_console().width


def make_console(*, stderr: bool = False) -> Console:
    """Make a console of a standard stream, anew each time: the chat swaps it while its prompt is open."""
    return _PlainConsole(stderr=stderr, highlight=False, markup=False, emoji=False)


def prepare_streams() -> None:
    """Have what a console or file cannot encode written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def silence_closed_pipe() -> None:
    """After a reader has gone: let the interpreter's last flush of standard output go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def silence_failed_output() -> None:
    """When standard output cannot take what is left for it: let the interpreter's last flush go nowhere."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        silence_closed_pipe()


def print_line(text: str, *, style: str = "", multiline: bool = False) -> None:
    """Print text, made safe, and end the line; on a terminal it is parted between words where that ends."""
    lines = escape(text, multiline=multiline).split("\n")
    if (console := make_console()).is_terminal:
        lines = [part for line in lines for part in wrap(line.expandtabs(8), console.width)]
    _print(Text("\n".join(lines), style))


def wrap(line: str, width: int) -> list[str]:
    """Part a line between words, and words that are too long anywhere, so that each part fits in `width`.

    Its indentation stays.
    """
    parts: list[str] = []
    current: str | None = None
    for word in line.split(" "):
        joined = word if current is None else f"{current} {word}"
        if cell_len(joined) <= width:
            current = joined
            continue
        if current is not None and current.strip(" "):
            parts.append(current.rstrip(" "))
        *full, current = chop_cells(word, width) or [word]
        parts += full
    return [*parts, current or ""]


def print_row(text: str, *, style: str = "") -> None:
    """Print text, made safe, on one row of the terminal, cut where that ends; elsewhere nothing is cut."""
    row = Text(escape(text), style)
    console = make_console()
    if console.is_terminal and row.cell_len > console.width:
        row.truncate(console.width - 3)
        row.append("...")
    _print(row)


def print_answer(text: str) -> None:
    """Print a piece of an answer, made safe, without ending the line."""
    _print(Text(escape(text, multiline=True)), end="")


def print_error(text: str) -> None:
    """Print `watchbell: <text>`, made safe, as one line on standard error."""
    with contextlib.suppress(OSError):  # then there is nobody to tell
        print(f"watchbell: {escape(text)}", file=sys.stderr, flush=True)  # noqa: T201 - the one place for it


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print structs or JSON data in pure ASCII, which every console can print and every program can read."""
    separators = (",", ":") if indent is None else None
    data = msgspec.to_builtins(value)
    sys.stdout.write(json.dumps(data, ensure_ascii=True, indent=indent, separators=separators) + "\n")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, each cell made safe, under their heads.

    On a terminal that is too narrow for the columns each row becomes a block of lines, one for each cell.
    """
    cells = [[escape(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    console = make_console()
    if console.is_terminal and sum(widths) + 2 * len(widths) - 2 > console.width:
        _print_blocks(heads, cells, console.width)
        return
    for row, style in [(list(heads), "bold"), *((row, "") for row in cells)]:
        padded = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        _print(Text("  ".join(padded).rstrip(), style))


def _print_blocks(heads: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> None:
    margin = max(map(len, heads)) + 2
    for number, row in enumerate(cells):
        if number:
            _print(Text(""))
        for head, cell in zip(heads, row, strict=True):
            first, *rest = wrap(cell, max(8, width - margin))
            _print(Text.assemble((f"{head:<{margin}}", "bold"), first))
            for part in rest:
                _print(Text(" " * margin + part))


def _print(text: Text, end: str = "\n") -> None:
    make_console().print(text, soft_wrap=True, end=end)


def _visible(match: re.Match[str]) -> str:
    mark = match[0]
    code = ord(mark)
    if mark in _SHORT:
        return _SHORT[mark]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
