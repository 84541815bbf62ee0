"""The inbox is what the log says: two lists, changed by splices, and what turns lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.agent.inbox import Inbox, Target
from watchbell.errors import CorruptLogError
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, TextBlock
from watchbell.log.payloads import TurnStart

INTERRUPTED = {"kind": "interrupted"}
DISPOSED = {"kind": "aborted", "reason": {"kind": "disposed"}}
CANCELLED = {"kind": "aborted", "reason": {"kind": "user"}}


def message(name: str, *, retained: bool = False) -> Message:
    source: dict[str, Any] = (
        {"kind": "plugin", "plugin": "p", "retained": True} if retained else {"kind": "user"}
    )
    return Message(name, "user", source, (TextBlock(name),))


def grow(log: EventLog, *drafts: Draft) -> EventLog:
    for draft in drafts:
        log.extend([draft.at(len(log), 0)])
    return log


def inserted(inbox: Inbox, *names: str, target: Target = "next-turn", start: int | None = None) -> Draft:
    return inbox.insert([message(name) for name in names], target, start)


def names(inbox: Inbox) -> tuple[list[str], list[str]]:
    return [m.id for m in inbox.next_turn], [m.id for m in inbox.next_step]


def test_messages_enter_and_leave_the_list_that_the_splice_names() -> None:
    log, inbox = EventLog(), Inbox()
    grow(log, inserted(inbox, "a", "b"), inserted(inbox, "c", target="next-step"))
    assert names(inbox.advance(log)) == (["a", "b"], ["c"])
    grow(log, inserted(inbox, "d", start=1))
    assert names(inbox.advance(log)) == (["a", "d", "b"], ["c"])
    grow(log, *inbox.remove(["d", "c"]))
    assert names(inbox.advance(log)) == (["a", "b"], [])
    assert [inbox.holds(name) for name in "bc"] == [True, False]


@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True),
    st.lists(st.sampled_from("stuvwxyz"), unique=True),
    st.sets(st.sampled_from("abcdefghstuvwxyz")),
)
def test_what_is_removed_is_exactly_what_was_named(
    turns: list[str], steps: list[str], gone: set[str]
) -> None:
    log, inbox = EventLog(), Inbox()
    grow(log, inserted(inbox, *turns), inserted(inbox, *steps, target="next-step"))
    grow(log, *inbox.advance(log).remove(gone, canceled=True))
    left = [name for name in turns if name not in gone], [name for name in steps if name not in gone]
    assert names(inbox.advance(log)) == left
    assert names(Inbox().advance(log)) == left


def test_a_splice_that_does_not_fit_its_list_is_damage() -> None:
    log, inbox = EventLog(), Inbox()
    grow(log, inserted(inbox, "a"), Draft("agent/inbox/spliced", _removal(0, 2)))
    with pytest.raises(CorruptLogError, match="removes 2 messages at 0 of 1"):
        inbox.advance(log)


def _removal(start: int, count: int) -> dict[str, Any]:
    return {"target": "next-turn", "start": start, "removedCount": count, "inserted": []}


def _claim(*messages: Message, end: dict[str, Any] | None, turn: int = 1) -> list[Draft]:
    drafts = [
        Inbox().insert(messages, "next-turn"),
        Draft("turn/start", TurnStart(turn)),
        Draft("agent/inbox/spliced", _removal(0, len(messages))),
    ]
    return drafts if end is None else [*drafts, Draft("turn/end", {"turn": turn, "reason": end})]


def _returned(log: EventLog, owned_from: int = 0) -> list[str]:
    drafts = Inbox(owned_from).advance(log).returned()
    return [m.id for draft in drafts for m in draft.data.inserted]


@pytest.mark.parametrize("end", [CANCELLED, {"kind": "completed"}, None])
def test_what_another_turn_had_claimed_does_not_come_back(end: dict[str, Any] | None) -> None:
    assert _returned(grow(EventLog(), *_claim(message("a", retained=True), message("b"), end=end))) == []


def test_each_message_comes_back_to_the_head_of_its_own_list() -> None:
    inbox = Inbox()
    log = grow(EventLog(), inbox.insert([message("s")], "next-step"), *_claim(message("t"), end=None))
    grow(log, *inbox.advance(log).remove(["s"]), Draft("turn/end", {"turn": 1, "reason": INTERRUPTED}))
    inbox.advance(log)
    grow(log, inserted(inbox, "later"), inserted(inbox, "after", target="next-step"))
    grow(log, *inbox.advance(log).returned())
    assert names(inbox.advance(log)) == (["t", "later"], ["s", "after"])


def test_canceled_messages_do_not_come_back() -> None:
    inbox = Inbox()
    log = grow(EventLog(), inserted(inbox, "a"), Draft("turn/start", TurnStart(1)))
    grow(
        log,
        *inbox.advance(log).remove(["a"], canceled=True),
        Draft("turn/end", {"turn": 1, "reason": INTERRUPTED}),
    )
    assert _returned(log) == []
