"""Time zones from the pinned `tzdata` wheel alone, so that every machine resolves a local time alike.

The host's zone files, `PYTHONTZPATH` and the process's own zone play no part (contract section 3).
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from zoneinfo import ZoneInfo

from watchbell.errors import ZoneDataError

_PACKAGE = "tzdata"


class ZoneTable:
    """Looks zones up by name in the wheel's own list and loads each one once.

    `UTC` needs no data. Every other name needs the wheel; without it looking one up raises ZoneDataError,
    so that missing data is never taken for an unknown zone.

    Args:
        root: Where the list `zones` and the folder `zoneinfo` lie; the installed wheel when None.
    """

    def __init__(self, root: Traversable | None = None) -> None:
        self._given_root = root
        self._loaded: dict[str, tzinfo] = {"utc": UTC}

    def find(self, name: str) -> tzinfo | None:
        """Return the zone of that name in any letter case, None when there is none.

        Names are `UTC` and those IANA names of the wheel's list that have a slash, links included.

        Raises:
            ZoneDataError: The wheel's data is missing or damaged.
        """
        # Lower case would map some non-ASCII letters, such as the Kelvin sign, onto ASCII ones.
        if not name.isascii():
            return None
        key = name.lower()
        if key in self._loaded:
            return self._loaded[key]
        if "/" not in key:
            return None
        listed = self._names.get(key)
        if listed is None:
            return None
        zone = self._loaded[key] = self._load(listed)
        return zone

    def check(self) -> None:
        """Make sure that the data is there.

        Raises:
            ZoneDataError: The wheel's data is missing or damaged.
        """
        for name in ("Etc/UTC", "Europe/London"):
            if self.find(name) is None:
                raise _missing(f"{name} is not in its list")

    def release(self) -> str:
        """Return the IANA release of the data, such as `2026f`.

        Raises:
            ZoneDataError: The wheel is not installed.
        """
        try:
            return str(import_module(_PACKAGE).IANA_VERSION)
        except (ImportError, AttributeError) as error:
            raise _missing("it does not say its release") from error

    def origin(self) -> str:
        """Return where the data lies, for people.

        Raises:
            ZoneDataError: The wheel is not installed.
        """
        return str(self._root)

    @property
    def _root(self) -> Traversable:
        if self._given_root is not None:
            return self._given_root
        try:
            return files(_PACKAGE)
        except ImportError as error:
            raise _missing("it is not installed") from error

    @cached_property
    def _names(self) -> dict[str, str]:
        """The listed names with a slash, by their lower-case form."""
        try:
            listed = self._root.joinpath("zones").read_text(encoding="ascii").split()
        except (OSError, ValueError) as error:
            raise _missing("its list of zones cannot be read") from error
        return {name.lower(): name for name in listed if "/" in name}

    def _load(self, name: str) -> ZoneInfo:
        try:
            with self._root.joinpath("zoneinfo", *name.split("/")).open("rb") as file:
                return ZoneInfo.from_file(file, key=name)
        except (OSError, ValueError) as error:
            raise _missing(f"its file for {name} cannot be read") from error


def _missing(reason: str) -> ZoneDataError:
    return ZoneDataError(
        f"the time zone data of the Python package {_PACKAGE!r} cannot be used: {reason}; "
        f"reinstall it (pip install --force-reinstall {_PACKAGE})"
    )
