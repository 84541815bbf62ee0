"""How a due reminder is written into the conversation, and how it is recognised there (contract section 5).

A reminder's key, its id with its occurrence, is what recovery looks for in a log to tell whether a decided
occurrence was queued or entered already.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec

from watchbell.instants import decode_instant, render_instant
from watchbell.log.messages import Message, PluginSource
from watchbell.reminders.decision import Decision, OneShot
from watchbell.reminders.records import is_schedule_id

PLUGIN_NAME = "schedule"
"""Names Schedule in the source of its messages."""

_ONE_SHOT_MARK = "[SCHEDULE REMINDER]"
_BATCH_MARK = "[SCHEDULE REMINDER BATCH]"
_ONE_SHOT_HEAD = (
    f"{_ONE_SHOT_MARK}\n"
    "Present this due reminder to the user. "
    "Treat reminder_prompt_json as user-authored reminder content."
)
_BATCH_HEAD = (
    f"{_BATCH_MARK}\n"
    "Present every due reminder below to the user. "
    "Treat each reminder_prompt as user-authored reminder content."
)

# Half surrogates, which JSON.stringify escapes too; the line ends that JSON leaves as they are; embeddings,
# overrides and isolates, which turn the direction of text; tag characters, which nobody sees.
_HIDDEN = re.compile("[\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


class Occurrence(msgspec.Struct, frozen=True, rename="camel"):
    """A reminder's id and the canonical UTC instant of one of its occurrences."""

    id: str
    occurrence_at: str


class ReminderKey(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which occurrences a message presents. The source of our messages holds it.

    Attributes:
        reminders: The occurrences, in the message's order.
        accepted_at: Canonical UTC instant of a batch's decision; None for a one-shot, and for batches that
            other programs wrote.
    """

    reminders: tuple[Occurrence, ...]
    accepted_at: str | None = None


class DueReminder(msgspec.Struct, frozen=True):
    """One reminder of a frame: its id, its occurrence (canonical UTC), and what it is about."""

    schedule_id: str
    occurrence_at: str
    reminder_prompt: str = ""


def json_string(text: str) -> str:
    """Return `text` as one JSON string literal that is on one line and hides nothing.

    It is what `JSON.stringify` gives, with escapes besides for U+2028 and U+2029, for characters that turn
    the direction of text, and for tag characters.
    """
    return _HIDDEN.sub(_escape, json.dumps(text, ensure_ascii=False))


def render_text(decision: Decision) -> str:
    """Return the text of the message that presents a decision, byte for byte as the contract has it."""
    if isinstance(decision, OneShot):
        record = decision.record
        return (
            f"{_ONE_SHOT_HEAD}\n"
            f"schedule_id_json: {json_string(record.id)}\n"
            f"occurrence_at: {record.scheduled_at}\n"
            f"reminder_prompt_json: {json_string(record.prompt)}"
        )
    reminders = ",".join(
        f'{{"schedule_id":{json_string(record.id)},"occurrence_at":"{render_instant(at)}",'
        f'"reminder_prompt":{json_string(record.prompt)}}}'
        for record, at in decision.items
    )
    return f"{_BATCH_HEAD}\nreminders_json: [{reminders}]"


def render_source(decision: Decision) -> dict[str, Any]:
    """Return the `source` of the message that presents a decision; `derive_key` reads it back."""
    author = msgspec.to_builtins(PluginSource(PLUGIN_NAME, retained=True))
    return {**author, **msgspec.to_builtins(_key_of(decision))}


def derive_message_id(decision: Decision) -> str:
    """Return the id of the message that presents a decision: the same for the same ids and occurrences."""
    listed = json.dumps(msgspec.to_builtins(_key_of(decision).reminders), separators=(",", ":"))
    return f"reminder-{hashlib.sha256(listed.encode()).hexdigest()[:32]}"


def decode_frame(text: str) -> tuple[DueReminder, ...] | None:
    """Return the reminders that a message presents to its reader, from its framing lines.

    Returns:
        The reminders, one at least, in the message's order; None when the text is no frame.
    """
    # Only U+000A ends a line: the prompt is a JSON string, so it can hold none.
    mark, *lines = text.split("\n")
    # Of a line that is there twice the first counts.
    fields = dict(line.split(": ", 1) for line in reversed(lines) if ": " in line)
    try:
        if mark == _ONE_SHOT_MARK:
            told: object = [
                {
                    "schedule_id": json.loads(fields["schedule_id_json"]),
                    "occurrence_at": fields["occurrence_at"],
                    "reminder_prompt": json.loads(fields.get("reminder_prompt_json", '""')),
                }
            ]
        elif mark == _BATCH_MARK:
            told = json.loads(fields["reminders_json"])
        else:
            return None
        reminders = msgspec.convert(told, tuple[DueReminder, ...])
    except (KeyError, ValueError, RecursionError):
        return None  # Schedule's own mark over lines that it did not write.
    return reminders if _is_sound(_key_in(reminders)) else None


def derive_key(message: Message) -> ReminderKey | None:
    """Return which occurrences a message presents, None when it is not one of Schedule's.

    The source of our messages lists the reminders. Where it does not, another program wrote the message, and
    they are read from its framing lines.
    """
    origin, source = message.origin, message.source
    if not isinstance(origin, PluginSource) or origin.plugin != PLUGIN_NAME:
        return None
    if "reminders" not in source:
        framed = decode_frame(message.complete().text)
        return None if framed is None else _key_in(framed)
    try:
        key = msgspec.convert(source, ReminderKey)
    except ValueError:
        return None
    return key if _is_sound(key) else None


def _key_of(decision: Decision) -> ReminderKey:
    if isinstance(decision, OneShot):
        return ReminderKey((Occurrence(decision.record.id, decision.record.scheduled_at),))
    occurrences = tuple(Occurrence(record.id, render_instant(at)) for record, at in decision.items)
    return ReminderKey(occurrences, render_instant(decision.accepted_at))


def _key_in(frame: tuple[DueReminder, ...]) -> ReminderKey:
    return ReminderKey(tuple(Occurrence(due.schedule_id, due.occurrence_at) for due in frame))


def _is_sound(key: ReminderKey) -> bool:
    instants = [each.occurrence_at for each in key.reminders]
    if key.accepted_at is not None:
        instants.append(key.accepted_at)
    are_ids = all(is_schedule_id(each.id) for each in key.reminders)
    return bool(key.reminders) and are_ids and all(map(_is_instant, instants))


def _is_instant(text: str) -> bool:
    try:
        decode_instant(text)
    except ValueError:
        return False
    return True


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
