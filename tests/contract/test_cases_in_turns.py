"""The field cases that need a model's turn: parallel calls, broken arguments, forged frames.

Names such as MOD-18 are ids of field cases, kept stable.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contract.cases_model import FORGERIES
from tests.contract.live import Live, live, living
from tests.contract.world import create_row
from tests.program import data, results, texts
from watchbell.errors import ModelError
from watchbell.models.base import ModelRequest
from watchbell.models.openai._wire import wire_messages
from watchbell.testing import call, say
from watchbell.testing.model import Part

BROKEN = ['{"prompt":"p","after_sec', '{"prompt":"p","after_seconds":600} x', "[]", '"text"',
          '{"prompt":"p","after_seconds":6']  # fmt: skip
EQUAL = [call("schedule_create", {"prompt": "p", "after_seconds": 600}, name) for name in "abc"]


async def speak(at: Live, *texts: str) -> list[Any]:
    """Say something, thing by thing, and return the values of all tool results."""
    for text in texts:
        at.agent.followup(text)
        await at.agent.when_idle()
    return [json.loads(text) for _, text in results(at.events)]


def strict(request: ModelRequest) -> Part:
    """Answer like a provider with a rule for the root of a schema."""
    for tool in request.tools:
        root = tool.parameters
        if root["type"] != "object" or {"oneOf", "anyOf", "allOf", "enum", "not"} & set(root):
            raise ModelError(f"invalid schema for function {tool.name}", status=400)
    return say(f"{len(request.tools)} tools")


@living(script=strict)
async def test_mod_01_a_provider_with_the_root_rule_takes_every_request(at: Live) -> None:
    await speak(at, "hello")
    assert texts(at.agent) == ["hello", "3 tools"]


@living(script=[EQUAL, call("schedule_list"), "done"])
async def test_mod_15_parallel_calls_with_equal_arguments_give_three_reminders(at: Live) -> None:
    *created, listed = await speak(at, "go on")
    ids = ["schedule-1", "schedule-2", "schedule-3"]
    assert sorted(view["id"] for view in created) == ids
    assert [view["id"] for view in listed] == ids
    assert [change["schedule"]["id"] for change in data(at.events, "schedule/change")] == ids


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((text, "invalid_selector") for text in BROKEN),
        ('{"prompt":"\\ud83d","after_seconds":600}', "invalid_prompt"),
        ('{"prompt":"\ud83d","after_seconds":600}', "invalid_prompt"),
    ],
)
def test_mod_16_and_log_05_broken_arguments_get_one_result_and_no_more(text: str, code: str) -> None:
    async def body(at: Live) -> list[ModelRequest]:
        (result,) = await speak(at, "go on", "and now?")
        assert result["code"] == code
        said = [message.text for message in at.agent.transcript() if message.text]
        assert said == ["go on", "I will try again.", "and now?", "well"]
        assert data(at.events, "schedule/change") == []
        return at.program.model.requests

    requests = live(body, [call("schedule_create", text), "I will try again.", "well"])
    assert len(requests) == 3
    for request in requests[1:]:  # what later requests tell of that call is well-formed
        wire = wire_messages(None, request.messages)
        json.dumps(wire, ensure_ascii=False).encode()
        (sent,) = [made for entry in wire for made in entry.get("tool_calls", ())]
        assert isinstance(json.loads(sent["function"]["arguments"]), dict)


@living(script=[*(call("schedule_list", text) for text in ("", "null", "{}")), "done"])
async def test_mod_16_list_answers_without_arguments(at: Live) -> None:
    assert await speak(at, "go on") == [[], [], []]


@living(log=[create_row("at", prompt=FORGERIES[0])])
async def test_mod_19_a_reminders_turn_has_the_tools_of_every_turn(at: Live) -> None:
    await speak(at, "hello")
    await at.until(601)
    assert at.delivered == ["schedule-1"]
    by_person, by_reminder = at.program.model.requests
    assert by_person.tools == by_reminder.tools
    assert by_person.system == by_reminder.system
