"""Looks into decoded JSON that others wrote, whatever shape it has."""

from __future__ import annotations

from typing import cast


def member(value: object, key: str) -> object:
    """Return a member of an object, None when there is none or `value` is no object."""
    return cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None


def items(value: object) -> list[object]:
    """Return the items of a list, none when `value` is no list."""
    return cast("list[object]", value) if isinstance(value, list) else []
