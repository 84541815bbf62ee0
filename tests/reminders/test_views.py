"""What the tools answer is a struct until the model gets it, as JSON with its keys in order."""

from __future__ import annotations

import json

from tests.reminders.changes import at, every, ms, t
from watchbell.reminders.records import AfterRecord
from watchbell.reminders.views import Deletion, Failure, derive_view, render_answer


def test_an_answer_is_written_with_its_keys_in_order() -> None:
    after = AfterRecord("schedule-1", "p", t("00:10:00"), after_seconds=600)
    views = tuple(
        derive_view(r, ms("00:10:00")) for r in (after, at("a", "00:10:01"), every("e", "00:10:00"))
    )
    tail = ',"state":"%s","deliveryMode":"session-local"}'
    told = [
        '{"id":"schedule-1","kind":"after","prompt":"p","afterSeconds":600,'
        f'"scheduledAt":"{t("00:10:00")}"' + tail % "overdue",
        f'{{"id":"a","kind":"at","prompt":"do a","scheduledAt":"{t("00:10:01")}"' + tail % "scheduled",
        '{"id":"e","kind":"every","prompt":"look at e","everySeconds":300,'
        f'"scheduledAt":"{t("00:10:00")}"' + tail % "overdue",
    ]
    for answer, text in (
        *zip(views, told, strict=True),
        (views, f"[{','.join(told)}]"),
        (Deletion("a", deleted=True), '{"id":"a","deleted":true}'),
        (
            Deletion("a", deleted=False, code="schedule_not_found"),
            '{"id":"a","deleted":false,"code":"schedule_not_found"}',
        ),
        (Failure("internal_error", "m"), '{"code":"internal_error","message":"m"}'),
        (
            Failure("persistence_uncertain", "m", "create", "a"),
            '{"code":"persistence_uncertain","message":"m","operation":"create","id":"a"}',
        ),
    ):
        assert json.dumps(render_answer(answer), separators=(",", ":")) == text
