"""9. What the model pays

Everything that Schedule adds to a request, and where.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.contract.live import Live, live, living
from tests.program import data, quiet, user_texts
from watchbell.host import time_context
from watchbell.log.values import encode_json
from watchbell.models.base import ModelRequest
from watchbell.schedule.tools import catalog_tools
from watchbell.testing import call

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "costs.md"
CREATE = call("schedule_create", {"prompt": "p", "after_seconds": 60})


def requests(body: Any, script: Any = (), **options: Any) -> list[ModelRequest]:
    """What the model was asked while `body` ran."""

    async def watched(at: Live) -> list[ModelRequest]:
        await body(at)
        return at.program.model.requests

    return live(watched, script, **options)


async def a_day(at: Live) -> None:
    """A conversation with a one-shot, repeaters, calls and a restart."""
    at.agent.followup("remind me")
    await quiet(at.agent)
    await at.repeat(300)
    await at.repeat(600)
    await at.until(700)
    await at.reopen()
    at.agent.followup("what is left?")
    await at.until(300)


SCRIPT = [[CREATE], "done", "rang", "rang", "rang", [call("schedule_list")], "two", "rang"]


def test_three_schemas_are_a_fixed_part_of_each_request() -> None:
    """The three tools' schemas are part of each request, and the same bytes in each."""
    asked = requests(a_day, SCRIPT)
    assert len(asked) >= 7
    ours = sorted(catalog_tools(), key=lambda tool: tool.name)
    assert {_specs(request.tools) for request in asked} == {_specs(ours)}


def _specs(tools: Any) -> bytes:
    return encode_json([[tool.name, tool.description, tool.parameters] for tool in tools])


@living(script=SCRIPT)
async def test_each_call_has_one_json_result(at: Live) -> None:
    """Each call costs one result, the JSON of its value."""
    await a_day(at)
    assert (len(data(at.events, "tool/call")), len(data(at.events, "tool/result"))) == (2, 2)


@living
async def test_each_one_shot_and_each_batch_is_one_user_message(at: Live) -> None:
    """Each one-shot costs one user message, and each batch one, however many reminders are in it and however
    many of their occurrences were missed."""
    await at.remind(60)
    for _ in range(5):
        await at.repeat(300)
    at.clock.step(86_400)
    await at.until(1)
    assert [text.count("occurrence_at") for text in user_texts(at.events)] == [1, 5]


def test_it_is_appended_at_the_end_of_the_history() -> None:
    """All of it is appended at the end of the history, so that what a provider has cached of the requests
    before stays valid: each request begins with the messages of the one before it."""
    for plugins in ([], [time_context(time_zone="UTC")]):
        asked = requests(a_day, SCRIPT, plugins=plugins)
        for before, after in pairwise(asked):
            assert after.messages[: len(before.messages)] == before.messages
            assert len(after.messages) > len(before.messages)
            assert (after.system, after.tools) == (before.system, before.tools)


def test_the_docs_say_this_in_a_table() -> None:
    """The docs say this in a table: `docs/explanation/costs.md`, with the sizes in bytes and in tokens."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for name in ("schedule_create", "schedule_list", "schedule_delete"):
        assert any(name in row for row in rows)
    assert any("bytes" in row and "tokens" in row for row in rows)
