"""Reads a settings file."""

from __future__ import annotations

import tomllib
from pathlib import Path

from watchbell.errors import SettingsError


def read_config(path: Path) -> dict[str, object] | None:
    """Return the tables of a TOML file, None when there is no such file.

    Raises:
        SettingsError: The file cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        # Not chained, and without the line itself: that may hold a key.
        raise SettingsError(f"{path} is not TOML: {error}") from None
