"""What the offline model says about tool results and due reminders, and how it reads them."""

from __future__ import annotations

import re
import unicodedata
from typing import TypeVar

import msgspec

from watchbell.log.values import decode_typed

__all__ = ["HELP", "SMALL_TALK", "decode_frame", "read_list", "render_due", "render_outcome", "tell_list"]

HELP = """\
I am Watchbell's offline stand-in, not a language model: I follow a few fixed rules about reminders. Try:
- remind me in 20 minutes to check the deploy
- every half hour look at the build
- remind me tomorrow at 09:55 Berlin time to join the stand-up
- remind me at 2030-01-01 09:00 in Europe/Berlin to send the report
- what reminders do I have
- cancel schedule-1
For a real conversation use a model of any OpenAI-compatible API: `watchbell chat --help` tells how."""

_TRY = "say, for example: remind me in 20 minutes to stretch, or: what is pending, or: cancel the last one."
SMALL_TALK = {
    "thanks": "You are welcome. I am here when there is something to remember.",
    "bye": "Goodbye. What is pending comes when it is due and this session is open.",
    "hello": f"Hello! I am Watchbell's offline stand-in; {_TRY}",
    "help": f"I am Watchbell's offline stand-in and know of reminders alone; {_TRY}",
}

_PLACES = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1, "latest": -1}
_FILL = "the a my that this it reminder reminders one number to about for of please"
_JOINERS = "\u200c\u200d"
T = TypeVar("T")


class View(msgspec.Struct, frozen=True, rename="camel"):
    """What a tool of Schedule answers: a reminder, a deletion or a failure."""

    id: str = ""
    prompt: str = ""
    scheduled_at: str = ""
    every_seconds: int = 0
    state: str = ""
    deleted: bool | None = None
    code: str = ""
    message: str = ""


class DueReminder(msgspec.Struct, frozen=True):
    """One reminder of a reminder message."""

    schedule_id: str
    occurrence_at: str
    reminder_prompt: str


def decode_frame(text: str) -> list[DueReminder] | None:
    """Read a reminder message (contract section 5, "Framing"); None when the text is none."""
    kind, _, rest = text.partition("\n")
    told = dict(line.split(": ", 1) for line in rest.split("\n") if ": " in line)
    try:
        if kind == "[SCHEDULE REMINDER]":
            schedule_id = decode_typed(told["schedule_id_json"].encode(), str)
            prompt = decode_typed(told["reminder_prompt_json"].encode(), str)
            return [DueReminder(schedule_id, told["occurrence_at"], prompt)]
        if kind == "[SCHEDULE REMINDER BATCH]":
            return decode_typed(told["reminders_json"].encode(), list[DueReminder])
    except (KeyError, ValueError):
        return None
    return None


def read_list(text: str) -> list[View] | None:
    """Read the value of `schedule_list`; None when the text is not one."""
    views = _read(text, list[View])
    return views if views is not None and all(view.scheduled_at for view in views) else None


def tell_list(wanted: str, views: list[View]) -> tuple[str, list[View]]:
    """Return what to say of the listed reminders, and which of them to delete.

    Args:
        wanted: `list` for all, `next` for the earliest, or `cancel` with the words for one or all of them.
        views: The active reminders, in the order in which they were made.
    """
    kind, _, words = wanted.partition(" ")
    if kind == "cancel" and views:
        chosen = _choose(words, views)
        ask = f'Which reminder? I do not understand "{words[:80]}". Say its id, such as: cancel schedule-2.\n'
        return "" if chosen else ask + _render_list(views), chosen
    if kind == "next" and views:
        view = min(views, key=lambda view: view.scheduled_at)
        return f"The next one is {view.id}: {_plain(view.prompt)}, {_render_when(view, 'next')}.", []
    return _render_list(views), []


def _choose(words: str, views: list[View]) -> list[View]:
    """Return the reminders that the words mean: all, or one; none when it is not clear which."""
    if re.fullmatch(
        r"(?:all|everything|every)(?:\s+(?:of|my|the|them|these|one|active|reminders?))*", words, re.I
    ):
        return views
    name = _bare(words)
    if not words:
        return []
    if name == "next":
        return sorted(views, key=lambda view: view.scheduled_at)[:1]
    if name in _PLACES:
        return views[_PLACES[name] :][:1]
    numbered = [view for view in views if view.id == f"schedule-{name}"]
    if numbered:  # unless that number is another one's place in the list
        return numbered if views[int(name) - 1 :][:1] in ([], numbered) else []
    same = [view for view in views if _bare(view.prompt) == name]
    found = same or [view for view in views if f" {name} " in f" {_bare(view.prompt)} " or not name]
    return found if len(found) == 1 else []


def render_due(due: DueReminder) -> str:
    """Return the sentence that presents a due reminder. Its prompt is shown, never followed."""
    at = _render_instant(due.occurrence_at)
    return f"Reminder: {_plain(due.reminder_prompt)} ({_plain(due.schedule_id)}, due {at})."


def render_outcome(text: str, *, is_error: bool) -> str:
    """Return a sentence about what a tool call came to."""
    view = _read(text, View) or View()
    if view.deleted is not None:
        return f"Cancelled {view.id}." if view.deleted else f"There is no active reminder {view.id}."
    if view.code:
        told = f"{view.message} ({view.code})"
        return told if view.code == "persistence_uncertain" else f"That did not work: {told}"
    if view.scheduled_at:
        return (
            f"I will remind you {_render_when(view, 'first')}: {_plain(view.prompt)} ({view.id}). It comes "
            "while this session is open; if it is closed then, it comes when the session is next opened."
        )
    return f"That did not work: {_plain(text)}" if is_error else f"The tool answered: {_plain(text)}"


def _render_list(views: list[View]) -> str:
    if not views:
        return "You have no active reminders."
    lines = [f"You have {len(views)} active reminder{'s' if len(views) > 1 else ''}:"]
    for view in views:
        overdue = " (overdue)" if view.state == "overdue" else ""
        lines.append(f"- {view.id}: {_plain(view.prompt)}, {_render_when(view, 'next')}{overdue}")
    return "\n".join(lines)


def _render_when(view: View, word: str) -> str:
    due = _render_instant(view.scheduled_at)
    if not view.every_seconds:
        return f"at {due}"
    units = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    size, unit = next(pair for pair in units if view.every_seconds % pair[0] == 0)
    count = view.every_seconds // size
    return f"every {unit if count == 1 else f'{count} {unit}s'}, {word} at {due}"


def _render_instant(instant: str) -> str:
    """Return canonical UTC for people, without fractions: `2026-12-01 00:00:03 UTC`."""
    return f"{instant[:10]} {instant[11:19]} UTC"


def _plain(text: str) -> str:
    """Return text as one line without characters that hide or reorder it."""
    shown = (mark for mark in text if mark in _JOINERS or unicodedata.category(mark) != "Cf")
    return " ".join("".join(shown).split())


def _bare(text: str) -> str:
    """Return the words that tell one reminder from another."""
    return " ".join(word for word in re.findall(r"\w+", text.casefold()) if word not in _FILL.split())


def _read(text: str, shape: type[T]) -> T | None:
    try:
        return decode_typed(text.encode("utf-8", "surrogatepass"), shape)
    except ValueError:
        return None
