"""What was done and seen besides the logs: all that the judge can hold against them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.judge.book import Book, Turn
from tests.judge.reader import Rows

__all__ = ["Create", "Evidence", "Violation"]


class Violation(NamedTuple):
    """One promise that was not kept."""

    kind: str
    session: str
    text: str


@dataclass(slots=True)
class Create:
    """A call of `schedule_create`; its prompt is its own.

    Attributes:
        session: Where it was made.
        prompt: What the reminder says.
        answer: The value, None while nothing came back.
        latest_ms: When its first occurrence has to be decided at the latest, epoch milliseconds, if known.
    """

    session: str
    prompt: str
    answer: dict[str, Any] | None = None
    latest_ms: int | None = None


@dataclass(kw_only=True)
class Evidence:
    """What somebody outside a program knows; whoever saw more of it overrides the methods.

    Attributes:
        creates: Calls of `schedule_create`, by prompt.
        deleted: Session and id of each delete that was confirmed.
        listed: Session and ids of each list that was answered.
        slack_ms: How long something may be due when the program came to rest.
    """

    creates: dict[str, Create] = field(default_factory=dict[str, Create])
    deleted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    listed: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    slack_ms: int = 0

    def is_over(self, session: str, seq: int | None) -> bool:
        """Whether a row came when the last process was ending already."""
        return False

    def was_cancelled(self, session: str, turn: Turn) -> bool:
        """Whether a person cancelled during a turn that says so."""
        return True

    def was_asked(self, session: str, message_id: str, turn: Turn) -> bool:
        """Whether the model got to see a message, whose last turn this is."""
        return turn.has_text or turn.reason["kind"] == "completed"

    def find_wrongs(self, logs: dict[str, Rows], books: dict[str, Book]) -> Iterator[Violation]:
        """Find what else the logs, folded into books, contradict."""
        return iter(())
