"""Laws of Schedule's pure core, each against an oracle that is simple enough to be believed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchbell.errors import ScheduleLogError
from watchbell.instants import (
    MAX_INSTANT_MS,
    MIN_INSTANT_MS,
    Duration,
    Instant,
    decode_instant,
    render_instant,
)
from watchbell.log.event import Draft
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, TextBlock
from watchbell.reminders.arguments import Limits, decode_create
from watchbell.reminders.decision import Batch, OneShot, decide, derive_dispatches
from watchbell.reminders.framing import derive_key, json_string, render_source, render_text
from watchbell.reminders.records import (
    AfterRecord,
    AtRecord,
    Change,
    Create,
    Delete,
    Dispatch,
    EveryRecord,
    Record,
    decode_change,
    draft_change,
    encode_change,
    trim,
)
from watchbell.reminders.state import ScheduleState
from watchbell.reminders.times import occurrence_at, resolve
from watchbell.reminders.views import RefusedError
from watchbell.zones import ZoneTable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
ZONES = ZoneTable()

instants_ms = st.integers(MIN_INSTANT_MS, MAX_INSTANT_MS).map(Instant)
near_ms = st.integers(1_796_083_200_000, 1_796_083_200_000 + DAY_MS).map(Instant)
texts = st.text(st.characters(), min_size=1).map(trim).filter(bool)
ids = st.one_of(st.sampled_from(["a", "b", "schedule-1", "schedule-2", "schedule-3"]), texts)


@st.composite
def records(draw: st.DrawFn, targets: st.SearchStrategy[Instant] = instants_ms) -> Record:
    schedule_id, prompt, scheduled_at = draw(ids), draw(texts), render_instant(draw(targets))
    match draw(st.sampled_from(["after", "at", "every"])):
        case "after":
            return AfterRecord(
                schedule_id, prompt, scheduled_at, after_seconds=draw(st.integers(1, 2**53 - 1))
            )
        case "at":
            return AtRecord(schedule_id, prompt, scheduled_at)
        case _:
            seconds = draw(st.one_of(st.integers(300, 3600), st.integers(300, (2**53 - 1) // 1000)))
            return EveryRecord(schedule_id, prompt, scheduled_at, every_seconds=seconds)


changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(Create, records()),
    st.builds(Delete, ids),
    st.builds(Dispatch, ids, st.one_of(st.none(), instants_ms.map(render_instant))),
)


# --- histories -------------------------------------------------------------------------------------------


class History:
    """A naive model of valid histories: a list of active records and a set of ids."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.active: list[Record] = []
        self.seen: list[str] = []

    def add(self, change: Change) -> None:
        self.changes.append(change)
        if isinstance(change, Create):
            self.active.append(change.schedule)
            self.seen.append(change.id)
            return
        index = next(i for i, record in enumerate(self.active) if record.id == change.id)
        record = self.active.pop(index)
        if (
            isinstance(change, Dispatch)
            and isinstance(record, EveryRecord)
            and change.accepted_at is not None
        ):
            target, accepted = decode_instant(record.scheduled_at), decode_instant(change.accepted_at)
            while target <= accepted:
                target += record.every_seconds * 1000
            if target > MAX_INSTANT_MS:
                return
            moved = EveryRecord(
                record.id, record.prompt, render_instant(Instant(target)), every_seconds=record.every_seconds
            )
            self.active.insert(index, moved)


@st.composite
def histories(draw: st.DrawFn) -> History:
    history = History()
    for _ in range(draw(st.integers(0, 12))):
        action = draw(st.sampled_from(["create", "create", "delete", "dispatch"]))
        if action == "create" or not history.active:
            record = draw(records(near_ms))
            if record.id not in history.seen:
                history.add(Create(record))
            continue
        record = draw(st.sampled_from(history.active))
        if action == "delete":
            history.add(Delete(record.id))
        elif isinstance(record, EveryRecord):
            late_ms = draw(st.integers(0, DAY_MS))
            history.add(Dispatch(record.id, render_instant(Instant(record.target_ms + late_ms))))
        else:
            history.add(Dispatch(record.id))
    return history


def log_of(changes: list[Change], gaps: list[int]) -> EventLog:
    """Put changes into a log with other events between them."""
    log = EventLog()
    for index, change in enumerate(changes):
        for _ in range(gaps[index % len(gaps)] if gaps else 0):
            log.extend([Draft("turn/start", {"turn": 1}).at(len(log), 0)])
        log.extend([draft_change(change).at(len(log), 0)])
    return log


def shown(state: ScheduleState) -> tuple[list[Record], set[str], str, int | None]:
    return list(state.records), set(state.reminders.seen), state.next_id(), state.earliest()


@given(histories(), st.lists(st.integers(0, 2), max_size=4), st.integers(0, 40))
def test_a_history_folds_the_same_at_once_step_by_step_and_from_any_split(
    history: History, gaps: list[int], split: int
) -> None:
    log = log_of(history.changes, gaps)
    at_once = ScheduleState()
    at_once.advance(log)
    assert list(at_once.records) == history.active
    assert at_once.reminders.seen == set(history.seen)
    assert at_once.earliest() == min((record.target_ms for record in history.active), default=None)

    stepwise, grown = ScheduleState(), EventLog()
    for event in log:
        grown.extend([event])
        stepwise.advance(grown)
        stepwise.earliest()
    assert shown(stepwise) == shown(at_once)

    halves = ScheduleState()
    halves.advance(log.prefix(split))
    halves.advance(log)
    assert shown(halves) == shown(at_once)

    seed = EventLog([*log.prefix(split), *(Draft("turn/end", {}).at(min(split, len(log)), 0),)])
    child = ScheduleState(len(seed))
    for change in history.changes:
        seed.extend([draft_change(change).at(len(seed), 0)])
    child.advance(seed)
    assert shown(child) == shown(at_once)


@given(histories(), changes)
def test_a_candidate_is_accepted_exactly_when_the_fold_accepts_it(history: History, change: Change) -> None:
    log = log_of(history.changes, [])
    state = ScheduleState()
    state.advance(log)
    before = shown(state)
    try:
        state.check_candidates([change])
        accepted = True
    except ScheduleLogError:
        accepted = False
    assert shown(state) == before
    log.extend([draft_change(change).at(len(log), 0)])
    if accepted:
        state.advance(log)
    else:
        with pytest.raises(ScheduleLogError):
            state.advance(log)


@given(histories(), st.integers(0, 3 * DAY_MS))
def test_delivering_until_nothing_is_due_shows_each_due_reminder_once(
    history: History, later_ms: int
) -> None:
    now_ms = Instant(1_796_083_200_000 + later_ms)
    log, state = log_of(history.changes, []), ScheduleState()
    state.advance(log)
    due = [record for record in state.records if record.target_ms <= now_ms]
    told: list[tuple[str, int]] = []
    batches = 0
    while (decision := decide(state, now_ms)) is not None:
        if isinstance(decision, OneShot):
            assert batches == 0
            told.append((decision.record.id, decision.record.target_ms))
        else:
            batches += 1
            told += [(record.id, occurrence_ms) for record, occurrence_ms in decision.items]
        for dispatch in derive_dispatches(decision):
            log.extend([draft_change(dispatch).at(len(log), 0)])
        state.advance(log)
    assert batches <= 1
    assert sorted(schedule_id for schedule_id, _ in told) == sorted(record.id for record in due)
    assert all(occurrence_ms <= now_ms for _, occurrence_ms in told)
    assert all(record.target_ms > now_ms for record in state.records)


@given(instants_ms, st.integers(300_000, 10_000_000), st.integers(0, 1000), st.integers(0, 10_000_000))
def test_the_latest_occurrence_is_what_counting_would_find(
    target_ms: Instant, interval_ms: int, missed: int, rest_ms: int
) -> None:
    now_ms = target_ms + missed * interval_ms + rest_ms % interval_ms
    following = target_ms
    while following <= now_ms:
        following += interval_ms
    found = occurrence_at(target_ms, Duration(interval_ms), Instant(now_ms))
    assert found == (following - interval_ms, following)


# --- the protocol ----------------------------------------------------------------------------------------


@given(changes)
def test_a_change_reads_back_in_any_spelling(change: Change) -> None:
    raw = encode_change(change)
    assert decode_change(raw) == change
    data = json.loads(raw)
    assert decode_change(json.dumps(data, indent=2).encode()) == change
    assert decode_change(json.dumps(dict(reversed(data.items()))).encode()) == change


LOOK_ALIKES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    2,
    -1,
    "1",
    "",
    " ",
    [],
    {},
    300.0,
    2**53,
    "every",
    "at",
]


@given(changes, st.data())
def test_a_mutated_row_either_means_something_else_or_is_refused(change: Change, data: st.DataObject) -> None:
    row = json.loads(encode_change(change))
    part = data.draw(st.sampled_from([row, *(value for value in row.values() if isinstance(value, dict))]))
    key = data.draw(st.sampled_from([*part, "extra"]))
    if data.draw(st.booleans()):
        part.pop(key, None)
    else:
        part[key] = data.draw(st.sampled_from(LOOK_ALIKES))
    raw = json.dumps(row, separators=(",", ":")).encode()
    try:
        read = decode_change(raw)
    except ScheduleLogError:
        return
    # What is accepted says exactly what the row says, down to the types of its values.
    assert json.dumps(json.loads(encode_change(read)), sort_keys=True) == json.dumps(row, sort_keys=True)


@given(changes, st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_never_makes_a_row_mean_two_things(change: Change, place: int, byte: int) -> None:
    raw = bytearray(encode_change(change))
    raw[place % len(raw)] = byte
    try:
        read = decode_change(bytes(raw))
    except ScheduleLogError:
        return
    assert json.loads(encode_change(read)) == json.loads(raw)


@given(instants_ms)
def test_an_instant_is_written_as_datetime_writes_it(instant_ms: Instant) -> None:
    text = render_instant(instant_ms)
    moment = EPOCH + timedelta(milliseconds=instant_ms)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert decode_instant(text) == instant_ms


# --- calls -----------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.sampled_from(["2027-06-01T09:00:00Z", "2027-06-01", "09:00:00", "UTC", 600, 300.0]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["date", "time", "time_zone", "x"]), inner, max_size=4),
    ),
    max_leaves=6,
)
arguments = st.dictionaries(
    st.sampled_from(["prompt", "after_seconds", "at", "every_seconds", "x"]), json_values, max_size=5
)


CODES = {
    "invalid_prompt",
    "invalid_selector",
    "invalid_rule",
    "invalid_time_zone",
    "not_future",
    "time_out_of_range",
    "frequency_too_high",
}


@given(st.one_of(arguments.map(json.dumps), st.text(), json_values.map(json.dumps)), instants_ms)
def test_any_call_gives_a_future_record_or_one_of_the_codes(text: str, now_ms: Instant) -> None:
    answer: Record | str
    try:
        answer = resolve(decode_create(text, ZONES, Limits()), "schedule-1", now_ms)
    except RefusedError as refusal:
        answer = refusal.code
    if isinstance(answer, str):
        assert answer in CODES
        return
    assert answer.target_ms > now_ms
    assert decode_change(encode_change(Create(answer))) == Create(answer)


# --- framing ---------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=[])))
def test_a_json_string_reads_back_and_shows_what_it_holds(text: str) -> None:
    literal = json_string(text)
    # Half pairs that stand together read back as one character.
    assert json.loads(literal) == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    literal.encode()
    assert not set(literal) & set(
        "\n\r\v\f\x1c\x1d\x1e\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2069"
    )


@given(st.lists(records(near_ms), min_size=1, max_size=4, unique_by=lambda record: record.id), near_ms)
def test_a_message_parses_back_into_its_reminders(due: list[Record], now_ms: Instant) -> None:
    repeating = [record for record in due if isinstance(record, EveryRecord)]
    items = tuple(
        (record, occurrence_at(record.target_ms, record.interval_ms, max(now_ms, record.target_ms))[0])
        for record in repeating
    )
    decision = Batch(items, now_ms) if items else OneShot(due[0])
    text = render_text(decision)
    if isinstance(decision, OneShot):
        head, guidance, schedule_id, occurrence, prompt = text.split("\n")
        assert (head, guidance[:8]) == ("[SCHEDULE REMINDER]", "Present ")
        assert json.loads(schedule_id.removeprefix("schedule_id_json: ")) == decision.record.id
        assert occurrence == f"occurrence_at: {decision.record.scheduled_at}"
        assert json.loads(prompt.removeprefix("reminder_prompt_json: ")) == decision.record.prompt
    else:
        head, guidance, reminders = text.split("\n")
        assert (head, guidance[:8]) == ("[SCHEDULE REMINDER BATCH]", "Present ")
        assert json.loads(reminders.removeprefix("reminders_json: ")) == [
            {"schedule_id": record.id, "occurrence_at": render_instant(at), "reminder_prompt": record.prompt}
            for record, at in items
        ]
    ours = derive_key(Message("m", "user", render_source(decision), (TextBlock(text),)))
    plain = {"kind": "plugin", "plugin": "schedule"}
    others = derive_key(Message("m", "user", plain, (TextBlock(text),)))
    assert ours is not None
    assert others is not None
    assert ours.reminders == others.reminders
