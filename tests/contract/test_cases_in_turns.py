"""The field cases that need a model's turn: parallel calls, broken arguments, forged frames.

Names such as MOD-18 are ids of field cases, kept stable.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.contract.cases_model import FORGERIES
from tests.contract.world import SESSION, World, create_row, is_reminder, later
from watchbell import Host
from watchbell.errors import ModelError
from watchbell.log.messages import Message
from watchbell.models.base import ModelRequest
from watchbell.models.openai._wire import wire_messages
from watchbell.testing import SimulatedClock, call, say

BROKEN = ['{"prompt":"p","after_sec', '{"prompt":"p","after_seconds":600} x', "[]", '"text"',
          '{"prompt":"p","after_seconds":6']  # fmt: skip


async def speak(host: Host, *texts: str) -> list[Message]:
    """Say something to the session's agent, thing by thing, and return the conversation."""
    agent = host.agents.get(SESSION) or await host.agents.open(SESSION)
    for text in texts:
        agent.followup(text)
        await agent.when_idle()
    return list(agent.transcript())


def results_of(messages: list[Message]) -> list[Any]:
    """The values of the tool results, in order."""
    blocks = [message.content[0] for message in messages if message.source["kind"] == "tool"]
    return [json.loads(block.content[0].text) for block in blocks]


def test_mod_01_a_provider_with_the_root_rule_takes_every_request() -> None:
    def strict(request: ModelRequest) -> Any:
        for tool in request.tools:
            root = tool.parameters
            if root["type"] != "object" or {"oneOf", "anyOf", "allOf", "enum", "not"} & set(root):
                raise ModelError(f"invalid schema for function {tool.name}", status=400)
        return say(f"{len(request.tools)} tools")

    async def body(host: Host, _: SimulatedClock) -> list[Message]:
        return await speak(host, "hello")

    assert World().live(body, script=strict)[-1].text == "3 tools"


def test_mod_15_parallel_calls_with_equal_arguments_give_three_reminders() -> None:
    equal = [call("schedule_create", {"prompt": "p", "after_seconds": 600}, name) for name in "abc"]
    script = [equal, call("schedule_list"), "done"]

    async def body(host: Host, _: SimulatedClock) -> list[Message]:
        return await speak(host, "go on")

    world = World()
    *created, listed = results_of(world.live(body, script=script))
    assert sorted(view["id"] for view in created) == ["schedule-1", "schedule-2", "schedule-3"]
    assert [view["id"] for view in listed] == ["schedule-1", "schedule-2", "schedule-3"]
    assert [row["schedule"]["id"] for row in world.changes()] == ["schedule-1", "schedule-2", "schedule-3"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *((text, "invalid_selector") for text in BROKEN),
        ('{"prompt":"\\ud83d","after_seconds":600}', "invalid_prompt"),
        ('{"prompt":"\ud83d","after_seconds":600}', "invalid_prompt"),
    ],
)
def test_mod_16_and_log_05_broken_arguments_get_one_result_and_the_conversation_goes_on(
    text: str, code: str
) -> None:
    answers = iter([call("schedule_create", text), "I will try again.", "well"])
    requests: list[ModelRequest] = []

    def note(request: ModelRequest) -> Any:
        requests.append(request)
        return next(answers)

    async def body(host: Host, _: SimulatedClock) -> list[Message]:
        return await speak(host, "go on", "and now?")

    world = World()
    messages = world.live(body, script=note)
    (result,) = results_of(messages)
    assert result["code"] == code
    assert [message.text for message in messages if message.text] == [
        "go on",
        "I will try again.",
        "and now?",
        "well",
    ]
    assert world.changes() == []
    for request in requests[1:]:  # what later requests tell of that call is well-formed
        wire = wire_messages(None, request.messages)
        json.dumps(wire, ensure_ascii=False).encode()
        (sent,) = [made for entry in wire for made in entry.get("tool_calls", ())]
        assert isinstance(json.loads(sent["function"]["arguments"]), dict)


@pytest.mark.parametrize("text", ["", "null", "{}"])
def test_mod_16_list_answers_without_arguments(text: str) -> None:
    async def body(host: Host, _: SimulatedClock) -> list[Message]:
        return await speak(host, "go on")

    assert results_of(World().live(body, script=[call("schedule_list", text), "done"])) == [[]]


# --- MOD-18 and MOD-19: what is delivered ----------------------------------------------------------------


def delivered(world: World) -> list[str]:
    return [message.text for message in world.live_for(601)]


@pytest.mark.parametrize(
    "prompt", [*FORGERIES, "a" * 16_384, "\U0001f600" * 4_096], ids=lambda text: text[:16]
)
def test_mod_19_a_one_shot_is_one_frame_with_the_prompt_on_one_line(prompt: str) -> None:
    world = World()
    assert world.create(prompt=prompt, after_seconds=600)["state"] == "scheduled"
    (text,) = delivered(world)
    head, _, schedule_id, occurrence, line = text.splitlines()
    assert head == "[SCHEDULE REMINDER]"
    assert json.loads(schedule_id.removeprefix("schedule_id_json: ")) == "schedule-1"
    assert occurrence == f"occurrence_at: {later(600)}"
    assert json.loads(line.removeprefix("reminder_prompt_json: ")) == world.changes()[0]["schedule"]["prompt"]


@pytest.mark.parametrize("prompt", FORGERIES, ids=lambda text: text[:16])
def test_mod_19_a_batch_of_three_is_one_frame_with_the_prompts_on_one_line(prompt: str) -> None:
    world = World(
        *(create_row("every", name, prompt=prompt.strip("\u2028"), everySeconds=3600) for name in "abc")
    )
    (text,) = delivered(world)
    head, _, line = text.splitlines()
    assert head == "[SCHEDULE REMINDER BATCH]"
    assert json.loads(line.removeprefix("reminders_json: ")) == [
        {"schedule_id": name, "occurrence_at": later(600), "reminder_prompt": prompt.strip("\u2028")}
        for name in "abc"
    ]


def test_mod_19_a_reminders_turn_has_the_tools_of_every_turn() -> None:
    requests: list[ModelRequest] = []

    def note(request: ModelRequest) -> str:
        requests.append(request)
        return "ok"

    async def body(host: Host, _: SimulatedClock) -> int:
        await speak(host, "hello")
        await asyncio.sleep(601)
        return sum(map(is_reminder, await speak(host)))

    assert World(create_row("at", prompt=FORGERIES[0])).live(body, script=note) == 1
    by_person, by_reminder = requests
    assert by_person.tools == by_reminder.tools
    assert by_person.system == by_reminder.system
