"""What was typed in earlier chats, in a file of the home that is its owner's alone."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from prompt_toolkit.history import FileHistory

from watchbell.storage.jsonl.files import FileSystem, make_directories

_NAME = "chat-history"


class ChatHistory(FileHistory):
    """The input history of a home. That it cannot be read or written is no reason not to talk.

    Args:
        home: The home.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / _NAME
        super().__init__(str(self._path))

    def load_history_strings(self) -> list[str]:
        """Return what was typed, latest first."""
        with contextlib.suppress(OSError, ValueError):
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        """Add what was typed."""
        files = FileSystem()
        with contextlib.suppress(OSError, ValueError):
            make_directories(files, self._path.parent)
            os.close(
                files.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            )  # sets the mode of a new one
            super().store_string(string)
