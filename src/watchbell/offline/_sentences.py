"""What the offline model says about tool results and due reminders, and how it reads them."""

from __future__ import annotations

import unicodedata
from typing import Any, cast

import msgspec

from watchbell.log.messages import ToolCallBlock
from watchbell.log.values import decode_json, decode_typed

__all__ = ["HELP", "DueReminder", "decode_frame", "decode_list", "render_outcome", "render_reminder"]

HELP = """\
I am Watchbell's offline stand-in, not a language model: I follow a few fixed rules about reminders. Try:
- remind me in 20 minutes to check the deploy
- every half hour look at the build
- remind me tomorrow at 09:55 Berlin time to join the stand-up
- remind me at 2030-01-01 09:00 in Europe/Berlin to send the report
- what reminders do I have
- cancel schedule-1
For a real conversation use a model of any OpenAI-compatible API: `watchbell chat --help` tells how."""

_JOINERS = "\u200c\u200d"


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


def decode_list(text: str) -> list[dict[str, Any]] | None:
    """Read the value of `schedule_list`; None when the text is not one."""
    value = _decode(text)
    if not isinstance(value, list):
        return None
    rows = cast("list[Any]", value)
    whole = all(
        isinstance(row, dict) and {"id", "kind", "prompt", "scheduledAt"} <= row.keys() for row in rows
    )
    return rows if whole else None


def render_reminder(reminder: DueReminder) -> str:
    """Return the sentence that presents a due reminder. Its prompt is shown, never followed."""
    due = _render_instant(reminder.occurrence_at)
    return f"Reminder: {_plain(reminder.reminder_prompt)} ({_plain(reminder.schedule_id)}, due {due})."


def render_outcome(call: ToolCallBlock | None, text: str, *, is_error: bool) -> str:
    """Return a sentence, or for a list several lines, about what a tool call came to."""
    if call is not None and call.name == "schedule_list" and (rows := decode_list(text)) is not None:
        return _render_list(rows)
    value = _decode(text)
    match value:
        case {"deleted": True, "id": schedule_id}:
            return f"Cancelled {schedule_id}."
        case {"deleted": False, "id": schedule_id}:
            return f"There is no active reminder {schedule_id}."
        case {"code": "persistence_uncertain", "message": message}:
            return f"{message} (persistence_uncertain)"
        case {"code": code, "message": message}:
            return f"That did not work: {message} ({code})"
        case {"id": schedule_id, "kind": str(), "prompt": str(prompt), "scheduledAt": str(scheduled_at)}:
            due = _render_instant(scheduled_at)
            when = f"at {due}" if "everySeconds" not in value else f"{_render_every(value)}, first at {due}"
            return (
                f"I will remind you {when}: {_plain(prompt)} ({schedule_id}). It comes while this session is "
                "open; if it is closed then, it comes when the session is next opened."
            )
        case None if call is not None and call.name == "schedule_list" and not is_error:
            return "You have more active reminders than I can list here."  # the result was cut
        case _:
            return f"That did not work: {_plain(text)}" if is_error else f"The tool answered: {_plain(text)}"


def _render_list(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "You have no active reminders."
    count = "1 active reminder" if len(rows) == 1 else f"{len(rows)} active reminders"
    lines = [f"You have {count}:"]
    for row in rows:
        due = _render_instant(row["scheduledAt"])
        when = f"at {due}" if "everySeconds" not in row else f"{_render_every(row)}, next at {due}"
        overdue = " (overdue)" if row.get("state") == "overdue" else ""
        lines.append(f"- {row['id']}: {_plain(row['prompt'])}, {when}{overdue}")
    return "\n".join(lines)


def _render_every(view: dict[str, Any]) -> str:
    seconds = int(view["everySeconds"])
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds % size == 0:
            count = seconds // size
            return f"every {unit}" if count == 1 else f"every {count} {unit}s"
    return f"every {seconds} seconds"


def _render_instant(instant: str) -> str:
    """Return canonical UTC for people, without fractions: `2026-12-01 00:00:03 UTC`."""
    return f"{instant[:10]} {instant[11:19]} UTC"


def _plain(text: str) -> str:
    """Return text as one line without characters that hide or reorder it."""
    shown = (mark for mark in text if mark in _JOINERS or unicodedata.category(mark) != "Cf")
    return " ".join("".join(shown).split())


def _decode(text: str) -> Any:
    try:
        return decode_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
