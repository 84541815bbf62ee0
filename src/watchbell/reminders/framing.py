"""How a due reminder is written into the conversation, and how it is recognised there (contract section 5).

A reminder's key, its id with its occurrence, is what recovery looks for in a log to tell whether a decided
occurrence was queued or entered already.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from watchbell.instants import decode_instant, render_instant
from watchbell.reminders.records import is_schedule_id
from watchbell.reminders.state import Batch, Decision, OneShot

__all__ = [
    "PLUGIN_NAME",
    "ReminderKey",
    "derive_key",
    "derive_message_id",
    "json_string",
    "render_source",
    "render_text",
]

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


class ReminderKey(msgspec.Struct, frozen=True):
    """Which occurrences a message presents.

    Attributes:
        reminders: Schedule id and occurrence (canonical UTC) of each, in the message's order.
        accepted_at: Canonical UTC instant of a batch's decision; None for a one-shot, and for batches that
            other programs wrote.
    """

    reminders: tuple[tuple[str, str], ...]
    accepted_at: str | None = None


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
        f'{{"schedule_id":{json_string(record.id)},"occurrence_at":"{render_instant(occurrence_ms)}",'
        f'"reminder_prompt":{json_string(record.prompt)}}}'
        for record, occurrence_ms in decision.items
    )
    return f"{_BATCH_HEAD}\nreminders_json: [{reminders}]"


def render_source(decision: Decision) -> dict[str, Any]:
    """Return the `source` of the message that presents a decision; `derive_key` reads it back."""
    source: dict[str, Any] = {
        "kind": "plugin",
        "plugin": PLUGIN_NAME,
        "retained": True,
        "reminders": _reminders(decision),
    }
    if isinstance(decision, Batch):
        source["acceptedAt"] = render_instant(decision.accepted_at_ms)
    return source


def derive_message_id(decision: Decision) -> str:
    """Return the id of the message that presents a decision: the same for the same ids and occurrences."""
    listed = json.dumps(_reminders(decision), separators=(",", ":"))
    return f"reminder-{hashlib.sha256(listed.encode()).hexdigest()[:32]}"


def derive_key(source: Mapping[str, Any], text: str) -> ReminderKey | None:
    """Return which occurrences a message presents, None when it is not one of Schedule's.

    Args:
        source: The message's source. Ours lists the reminders.
        text: The message's text. Where the source lists none, another program wrote the message and the
            reminders are read from the framing lines.
    """
    if source.get("kind") != "plugin" or source.get("plugin") != PLUGIN_NAME:
        return None
    if "reminders" not in source:
        return _derive_from_text(text)
    accepted_at = source.get("acceptedAt")
    if accepted_at is not None and not _is_instant(accepted_at):
        return None
    return _derive_from_list(source["reminders"], "id", "occurrenceAt", accepted_at)


def _reminders(decision: Decision) -> list[dict[str, str]]:
    if isinstance(decision, OneShot):
        return [{"id": decision.record.id, "occurrenceAt": decision.record.scheduled_at}]
    return [
        {"id": record.id, "occurrenceAt": render_instant(occurrence_ms)}
        for record, occurrence_ms in decision.items
    ]


def _derive_from_text(text: str) -> ReminderKey | None:
    # Only U+000A ends a line: the prompt is a JSON string, so it can hold none.
    mark, *lines = text.split("\n")
    fields = dict(line.split(": ", 1) for line in reversed(lines) if ": " in line)
    try:
        if mark == _ONE_SHOT_MARK:
            reminder = {"id": json.loads(fields["schedule_id_json"]), "at": fields["occurrence_at"]}
            return _derive_from_list([reminder], "id", "at", None)
        if mark == _BATCH_MARK:
            return _derive_from_list(
                json.loads(fields["reminders_json"]), "schedule_id", "occurrence_at", None
            )
    except (KeyError, ValueError, RecursionError):
        pass  # Schedule's own mark over lines that it did not write.
    return None


def _derive_from_list(value: Any, id_key: str, at_key: str, accepted_at: str | None) -> ReminderKey | None:
    try:
        pairs = tuple((reminder[id_key], reminder[at_key]) for reminder in value)
    except (KeyError, TypeError, IndexError):
        return None
    if not pairs or not all(_is_id(schedule_id) and _is_instant(at) for schedule_id, at in pairs):
        return None
    return ReminderKey(pairs, accepted_at)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and is_schedule_id(value)


def _is_instant(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        decode_instant(value)
    except ValueError:
        return False
    return True


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
