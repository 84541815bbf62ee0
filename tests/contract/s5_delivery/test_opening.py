"""5. Delivery: opening a session, and taking up

What a crash or a disposal left is made good before anything else, and what was not answered is asked again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.live import Live, live, living
from tests.contract.world import create_row, later
from tests.program import data, operations, passes, quiet, reason_kinds, texts, types, user_texts
from watchbell.agent.events import AgentCreated
from watchbell.agent.inbox import Inbox
from watchbell.log.event import Draft
from watchbell.log.messages import Message, TextBlock, TextDelta
from watchbell.log.payloads import (
    Aborted,
    AbortReason,
    AssistantMessage,
    ChunkEvent,
    Completed,
    Failed,
    Interrupted,
    Reason,
    StepMark,
    TakeUp,
    TurnFailure,
    TurnStart,
)
from watchbell.testing import call, hang, think
from watchbell.tools.function import tool

DUE = later(60)
COMPLETED, INTERRUPTED = Completed(), Interrupted()
DISPOSED, CANCELLED = Aborted(AbortReason("disposed")), Aborted(AbortReason("user"))
UNCERTAIN, FAILED = (Failed(TurnFailure("m", code)) for code in ("PERSISTENCE_UNCERTAIN", "X"))
TAKE = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}


def reminder(schedule_id: str = "schedule-1", occurrence_at: str = DUE, **more: Any) -> Message:
    """A message of Schedule."""
    listed = [{"id": schedule_id, "occurrenceAt": occurrence_at}]
    source = {"kind": "plugin", "plugin": "schedule", "retained": True, "reminders": listed, **more}
    return Message(f"m-{schedule_id}", "user", source, (TextBlock(f"ring {schedule_id}"),))


def person(name: str = "hello") -> Message:
    """A message of a person."""
    return Message(name, "user", {"kind": "user"}, (TextBlock(name),))


def queued(message: Message) -> Draft:
    """It enters the inbox."""
    return Inbox().insert([message], "next-turn")


def claimed(number: int) -> list[Draft]:
    """A turn begins and takes what is first."""
    return [Draft("turn/start", TurnStart(number)), Draft("agent/inbox/spliced", TAKE)]


def entered(number: int, message: Message) -> list[Draft]:
    """And it enters the conversation."""
    return [Draft("step/start", StepMark(number, 1)), Draft("user/message", message, None, "append")]


def ended(number: int, reason: Reason, *, step: bool = True) -> list[Draft]:
    """And the turn ends."""
    ends = [Draft("step/end", StepMark(number, 1))] if step else []
    return [*ends, Draft("turn/end", {"turn": number, "reason": reason})]


def change(row: dict[str, Any]) -> Draft:
    """A change of Schedule."""
    return Draft("schedule/change", row)


DECIDED = [
    change(create_row("at", scheduledAt=DUE)),
    queued(reminder()),
    change({"version": 1, "operation": "dispatch", "id": "schedule-1"}),
]
RUNNING = [*DECIDED, *claimed(1), *entered(1, reminder())]


def opened(*drafts: Draft, seed_length: int | None = None) -> list[Any]:
    """Open a session that holds these events, an hour later; return what was added once all is quiet."""

    async def body(at: Live) -> list[Any]:
        await quiet(at.agent)
        return at.events[len(drafts) :]

    return live(body, log=drafts, seed_length=seed_length, after=3600)


def take_ups(events: Any) -> list[Any]:
    """The attempts that were made."""
    return [mark["attempt"] for mark in data(events, "watchbell/take-up")]


# --- opening a session for work --------------------------------------------------------------------------


@living(log=[*DECIDED, *claimed(1)], after=3600)
async def test_opening_appends_what_is_missing_in_one_batch_at_first(at: Live) -> None:
    """Before anything is published, one batch closes an interrupted turn, then says `session/end-seed` when
    that is due, then puts back what the turn had claimed."""
    seen: list[list[str]] = []
    await at.agent.aclose()
    batches = at.program.disk.batches["s"] = at.program.disk.batches["s"][:1]
    at.program.host.ctx.on(AgentCreated, lambda event: seen.append(types(event.agent.session.events)))
    at.agent = await at.agents.resume("s")
    await quiet(at.agent)
    added = ["turn/end", "session/end-seed", "agent/inbox/spliced"]
    assert seen == [[*types(batches[0]), *added]]
    assert types(batches[1])[:3] == added


def test_opening_alone_writes_nothing() -> None:
    """When nothing is missing nothing is appended."""
    assert opened(change(create_row("at", scheduledAt=later(86_400)))) == []


def test_a_retained_message_that_was_claimed_alone_goes_back_to_the_head() -> None:
    """Each retained message that an interrupted turn had claimed, and that neither entered nor was reinserted
    later, goes back to the head of its own list, in order."""
    second = Draft("agent/inbox/spliced", {**TAKE, "start": 1})
    events = opened(*DECIDED, queued(person()), *claimed(1)[:1], second)
    assert user_texts(events) == ["ring schedule-1", "hello"]
    assert data(events, "agent/inbox/spliced")[0]["start"] == 0


@pytest.mark.parametrize("reason", [INTERRUPTED, DISPOSED])
def test_so_does_one_of_any_earlier_turn_that_was_interrupted(reason: Reason) -> None:
    """So does one that any earlier turn had claimed which ended `interrupted`, or aborted by disposal."""
    later_turn = [queued(person()), *claimed(2), *entered(2, person()), *ended(2, COMPLETED)]
    events = opened(*DECIDED, *claimed(1), *ended(1, reason, step=False), *later_turn)
    assert user_texts(events) == ["ring schedule-1"]


def test_messages_of_people_come_back_from_the_last_turn_alone() -> None:
    """Messages of people come back only from the last turn."""
    lost = [queued(person("old")), *claimed(1), *ended(1, INTERRUPTED, step=False)]
    assert user_texts(opened(*lost)) == ["old"]
    assert user_texts(opened(*lost, queued(person("new")), *claimed(2))) == ["new"]


def test_what_came_back_already_does_not_come_twice() -> None:
    """What entered later, or was put back already, does not come again."""
    lost = [*DECIDED, *claimed(1), *ended(1, INTERRUPTED, step=False), queued(reminder())]
    assert len(user_texts(opened(*lost))) == 1
    second = [*claimed(2), *entered(2, reminder()), *ended(2, COMPLETED)]
    assert user_texts(opened(*lost, *second)) == []


def test_only_what_the_session_owns_is_read() -> None:
    """Only events from the seed's end on are read for this: a fork has none of its parent's pending or
    claimed messages."""
    assert user_texts(opened(*DECIDED, queued(person()), seed_length=4)) == []
    assert user_texts(opened(*DECIDED, *claimed(1), seed_length=5)) == []


@pytest.mark.parametrize("where", ["the inbox", "the conversation"])
def test_a_dispatch_that_is_missing_is_appended(where: str) -> None:
    """Then Schedule appends the dispatch that is missing for each active record whose key is in the log
    already, in the inbox or as a `user/message`: what was delivered is not decided about again."""
    turn = [*claimed(1), *entered(1, reminder()), *ended(1, COMPLETED)]
    rest = [] if where == "the inbox" else turn
    events = opened(*DECIDED[:2], *rest)
    assert operations(events) == ["dispatch schedule-1"]
    assert user_texts(events) == (["ring schedule-1"] if where == "the inbox" else [])


def test_it_is_appended_before_the_driver_may_start() -> None:
    """It does so on `agent/created`, at once: it stands in the log before any turn begins."""
    assert types(opened(*DECIDED[:2]))[:3] == ["session/end-seed", "schedule/change", "turn/start"]


@pytest.mark.parametrize(("occurs", "accepted"), [(660, 700), (660, None), (60, 70)])
def test_the_dispatch_of_a_repeater_has_the_messages_instant(occurs: int, accepted: int | None) -> None:
    """For a repeater it has the message's `acceptedAt`, and where that is absent the message's occurrence."""
    more = {} if accepted is None else {"acceptedAt": later(accepted)}
    repeater = change(create_row("every", scheduledAt=later(60)))
    events = opened(repeater, queued(reminder(occurrence_at=later(occurs), **more)))
    assert data(events, "schedule/change")[0]["acceptedAt"] == later(accepted or occurs)


def test_a_message_about_an_earlier_occurrence_proves_nothing() -> None:
    """A message about an occurrence before the record's `scheduledAt` proves nothing: that one was
    dispatched."""
    repeater = change(create_row("every", scheduledAt=later(86_400)))
    events = opened(repeater, queued(reminder(occurrence_at=later(60))))
    assert operations(events) == []
    assert user_texts(events) == ["ring schedule-1"]


def test_the_driver_starts_by_itself_when_anything_is_pending() -> None:
    """Only then the driver may start, and it starts by itself when anything is pending."""
    assert reason_kinds(opened(*DECIDED)) == ["completed"]


# --- taking up -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [None, INTERRUPTED, DISPOSED, UNCERTAIN])
def test_a_reminders_unanswered_turn_is_taken_up(reason: Reason | None) -> None:
    """A reminder's turn that ended `interrupted`, or aborted by disposal, or because the barrier before the
    model's call failed, is taken up: a new turn is run on the history as it stands, with no second
    message."""
    events = opened(*RUNNING, *([] if reason is None else ended(1, reason)))
    assert take_ups(events) == [1]
    assert reason_kinds(events)[-1] == "completed"
    assert user_texts(events) == []


def test_a_turn_whose_answer_had_text_is_not() -> None:
    """Not so once the model's answer held any text; reasoning and tool calls are no text."""
    begun = Draft("assistant/chunk", ChunkEvent(1, 1, TextDelta(0, "Str")))
    assert take_ups(opened(*RUNNING, begun)) == []
    model = {"kind": "model", "provider": "p", "model": "m"}
    said = AssistantMessage(1, 1, Message("a", "assistant", model, (TextBlock("Stretch"),)))
    assert take_ups(opened(*RUNNING, Draft("assistant/message", said, (), "append"))) == []

    async def body(at: Live) -> list[int]:
        await at.remind(60)
        await asyncio.sleep(65)
        await at.reopen()
        await quiet(at.agent)
        return take_ups(at.events)

    @tool
    async def endless() -> None:
        """Never end."""
        await asyncio.Event().wait()

    for parts in ([think("hm"), hang()], [call("endless")]):
        assert live(body, [parts], tools=[endless]) == [1]


def test_a_message_is_taken_up_three_times_at_most() -> None:
    """A message is taken up at most three times."""
    log = [*RUNNING, *ended(1, INTERRUPTED)]
    for attempt in (1, 2, 3):
        assert take_ups(opened(*log)) == [attempt]
        log.append(Draft("watchbell/take-up", TakeUp("m-schedule-1", attempt), ignorable=True))
        log += [Draft("turn/start", TurnStart(attempt + 1)), Draft("step/start", StepMark(attempt + 1, 1))]
        log += ended(attempt + 1, INTERRUPTED)
    assert take_ups(opened(*log)) == []


def test_the_take_up_is_written_before_its_turn_and_is_what_is_counted() -> None:
    """Before its `turn/start` stands `watchbell/take-up {messageId, attempt}`, with `ignorable: true`; that
    is what is counted, so that a program which dies again and again comes to an end."""
    events = opened(*RUNNING)
    at = types(events).index("watchbell/take-up")
    assert events[at].ignorable
    assert events[at].data == {"messageId": "m-schedule-1", "attempt": 1}
    assert events[at + 1].type == "turn/start"
    torn = Draft("watchbell/take-up", TakeUp("m-schedule-1", 1), ignorable=True)
    assert take_ups(opened(*RUNNING, *ended(1, INTERRUPTED), torn)) == [2]


@pytest.mark.parametrize("how", ["cancelled", "disposed"])
@living(log=[*RUNNING, *ended(1, INTERRUPTED)], after=3600)
async def test_no_try_is_spent_before_the_storage_answers(at: Live, how: str) -> None:
    """A try is counted only once the storage has confirmed all there is: one that is cancelled or disposed of
    while it waits for that is no try."""
    at.gate.stop()
    await at.gate.reached()
    assert take_ups(at.events) == []
    if how == "cancelled":
        at.agent.cancel(discard_pending=True)
    disposal = asyncio.create_task(at.agent.aclose() if how == "disposed" else asyncio.sleep(0))
    await passes()
    at.gate.open()
    await disposal
    if how == "disposed":
        assert take_ups(at.events) == []
        at.agent = await at.agents.resume("s")
    await quiet(at.agent)
    assert take_ups(at.events) == [1]
    assert reason_kinds(at.events)[-1] == "completed"


@living(
    log=[*RUNNING, *ended(1, INTERRUPTED), queued(person())],
    script=["about the reminder", "about the other"],
    after=3600,
)
async def test_take_ups_come_before_pending_messages(at: Live) -> None:
    """Take-ups come before pending messages."""
    await quiet(at.agent)
    assert texts(at.agent) == ["ring schedule-1", "about the reminder", "hello", "about the other"]


@pytest.mark.parametrize("reason", [CANCELLED, COMPLETED, FAILED])
def test_a_turn_that_a_person_cancelled_is_not(reason: Reason) -> None:
    """A turn that a person cancelled is not taken up, nor one that came to its end, well or not."""
    assert take_ups(opened(*RUNNING, *ended(1, reason))) == []


def test_a_turn_that_a_person_opened_is_not() -> None:
    """Nor is one that a person opened."""
    events = opened(queued(person()), *claimed(1), *entered(1, person()))
    assert take_ups(events) == []
    assert reason_kinds(events) == ["interrupted"]


@living
async def test_a_live_session_takes_up_what_its_storage_did_not_confirm(at: Live) -> None:
    """A live session does not wait for the next opening: once its storage confirms again, the turn that had
    to end for it is taken up."""
    await at.remind(60)
    await asyncio.sleep(59.9)
    at.program.store.fail_writes(None)
    await at.until(600)
    assert take_ups(at.events) == []
    assert at.program.model.requests == []
    at.program.store.heal()
    await at.until(61)
    await passes()
    assert take_ups(at.events) == [1]
    assert reason_kinds(at.events) == ["error", "completed"]
