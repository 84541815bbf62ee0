"""Sessions with a model behind a real socket: what is refused, cut or malformed never bricks a session."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.models.server import (
    DONE,
    ModelServer,
    Reply,
    bytewise,
    call,
    delta,
    fragment,
    refuse,
    say,
    until,
    usage,
)
from tests.program import data, quiet, reasons, reminders, require_valid, results, texts
from watchbell import Host, OpenAIModel, schedule
from watchbell.agent.agent import Agent
from watchbell.testing import MemoryDisk, MemoryStorage, SimulatedClock

KEY = "sk-secret-0123456789"
pytestmark = pytest.mark.usefixtures("no_proxy")


async def no_wait(seconds: float) -> None:
    """Wait no time, however long one should."""


def converse(
    server: ModelServer, main: Callable[[Agent, SimulatedClock], Awaitable[None]], **options: Any
) -> Agent:
    """Run a session whose model is at the server, and check that its log is sound."""

    async def run() -> Agent:
        clock = SimulatedClock(recheck_seconds=0.01)
        async with server:
            model = OpenAIModel(
                "m", base_url=server.base_url, api_key=KEY, environment={}, sleep=no_wait, **options
            )
            storage = MemoryStorage(MemoryDisk())
            async with Host(storage=storage, model=model, plugins=[schedule.plugin()], clock=clock) as host:
                agent = await host.agents.create("s")
                await main(agent, clock)
                await agent.when_idle()
                events = agent.session.events
                require_valid(list(events))
                return agent

    agent = asyncio.run(asyncio.wait_for(run(), 60))
    assert KEY not in "".join(bytes(event.raw).decode() for event in agent.session.events)
    return agent


def say_in_turn(*messages: str) -> Callable[[Agent, SimulatedClock], Awaitable[None]]:
    async def main(agent: Agent, _: SimulatedClock) -> None:
        for message in messages:
            agent.followup(message)
            await quiet(agent)

    return main


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (refuse(401, f"bad key {KEY}"), "AUTHENTICATION"),
        (refuse(404, "no such model", code="model_not_found"), "MODEL_NOT_FOUND"),
        (refuse(429, "slow", headers={"retry-after": "3600"}), "RATE_LIMITED"),
        (refuse(400, "x", code="context_length_exceeded"), "CONTEXT_OVERFLOW"),
        (Reply([delta(content="Half")], then="cut"), "CUT_STREAM"),
        (Reply([delta("stop")]), "EMPTY_ANSWER"),
        (Reply([delta(content="Half"), delta("content_filter")]), "CONTENT_FILTER"),
        (Reply([delta(tool_calls=[fragment(0, '{"x', id="a", name="f")])], then="cut"), "CUT_STREAM"),
    ],
)
def test_a_fault_fails_its_turn_and_the_session_goes_on(reply: Reply, code: str) -> None:
    server = ModelServer([reply, say("Here I am.")])
    agent = converse(server, say_in_turn("one", "two"), max_retries=0)
    failed, completed = reasons(agent.session.events)
    assert (failed["kind"], failed["error"]["code"]) == ("error", code)
    assert KEY not in json.dumps(failed)
    assert completed == {"kind": "completed"}
    assert texts(agent)[-1] == "Here I am."


def test_a_failed_turn_tells_status_wait_and_request_id_in_the_log() -> None:
    headers = {"retry-after": "90", "x-request-id": "req-7"}
    agent = converse(ModelServer([refuse(429, headers=headers)]), say_in_turn("one"), max_retries=0)
    error = reasons(agent.session.events)[0]["error"]
    assert {key: error[key] for key in ("status", "providerRetryAfterMs", "requestId")} == {
        "status": 429,
        "providerRetryAfterMs": 90_000,
        "requestId": "req-7",
    }


def test_a_reminder_arrives_after_faults_that_asking_again_cured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    create = call(
        "schedule_create", '{"prompt": "stretch", "after_seconds": 60, "at": null, "every_seconds": null}'
    )
    server = ModelServer([refuse(503), create, refuse(429), say("Noted."), refuse(500), say("Stretch!")])

    async def main(agent: Agent, clock: SimulatedClock) -> None:
        agent.followup("Remind me in a minute to stretch.")
        await quiet(agent)
        clock.step(61)
        await until(lambda: texts(agent)[-1] == "Stretch!")

    agent = converse(server, main)
    assert [reason["kind"] for reason in reasons(agent.session.events)] == ["completed", "completed"]
    assert len(reminders(agent.session.events)) == 1
    assert caplog.text == ""


def test_roles_alternate_on_the_wire_and_the_transcript_keeps_both() -> None:
    def strictly(request: dict[str, Any]) -> Reply:
        roles = [message["role"] for message in request["messages"] if message["role"] != "system"]
        if any(role == before for role, before in zip(roles[1:], roles, strict=False)) or roles[0] != "user":
            return refuse(400, "Conversation roles must alternate user/assistant/user/assistant/...")
        last = request["messages"][-1]
        if last["role"] == "user" and last["content"].endswith("in a minute"):
            return call("schedule_create", '{"prompt": "water the fern", "after_seconds": 60}')
        return Reply(then="hang") if last["content"].endswith("a long story") else say("Here.")

    server = ModelServer(strictly)

    async def main(agent: Agent, clock: SimulatedClock) -> None:
        agent.followup("in a minute")
        await quiet(agent)
        agent.followup("a long story")
        await until(lambda: len(server.requests) == 3)
        agent.cancel()
        await quiet(agent)
        clock.step(61)
        await until(lambda: len(reasons(agent.session.events)) == 3)

    agent = converse(server, main)
    assert [reason["kind"] for reason in reasons(agent.session.events)] == [
        "completed",
        "aborted",
        "completed",
    ]
    assert len(server.requests) == 4
    last = server.requests[-1]["messages"][-1]["content"]
    assert last.startswith("a long story\n\n")
    assert last.count("water the fern") == 1
    assert [message.role for message in agent.transcript()][-3:] == ["user", "user", "assistant"]


@pytest.mark.parametrize(
    ("arguments", "finish"),
    [
        ('{"prompt":"p","after_sec', "tool_calls"),
        ('{"prompt":"p","after_seconds":600} x', "tool_calls"),
        ("[]", "tool_calls"),
        ('"text"', "tool_calls"),
        ('{"prompt":"p","after_seconds":6', "length"),
    ],
)
def test_malformed_arguments_are_answered_once_and_sent_back_as_valid_json(
    arguments: str, finish: str
) -> None:
    server = ModelServer([call("schedule_create", arguments, finish=finish), say("Sorry."), say("Yes?")])
    agent = converse(server, say_in_turn("remind me", "hello"))
    ((_, text),) = results(agent.session.events)
    assert json.loads(text)["code"] == "invalid_selector"
    assert data(agent.session.events, "schedule/change") == []
    assert data(agent.session.events, "tool/call")[0]["arguments"] == arguments
    for request in server.requests[1:]:
        for message in request["messages"]:
            for sent in message.get("tool_calls", []):
                assert isinstance(json.loads(sent["function"]["arguments"]), dict)


@pytest.mark.parametrize("arguments", ["", "null", "{}"])
def test_a_list_without_arguments_lists(arguments: str) -> None:
    server = ModelServer([call("schedule_list", arguments), say("None.")])
    agent = converse(server, say_in_turn("what is there?"))
    assert [json.loads(text) for _, text in results(agent.session.events)] == [[]]
    sent = server.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert sent == "{}"


@pytest.mark.parametrize("prompt", ["\\ud83d", "x\\udc00y"])
def test_half_a_surrogate_pair_in_a_prompt_does_not_brick_the_session(prompt: str) -> None:
    server = ModelServer(
        [call("schedule_create", f'{{"prompt":"{prompt}","after_seconds":600}}'), say("Sorry."), say("Yes?")]
    )
    agent = converse(server, say_in_turn("remind me", "hello"))
    ((_, text),) = results(agent.session.events)
    assert json.loads(text)["code"] == "invalid_prompt"
    assert texts(agent)[-1] == "Yes?"
    sent = server.requests[-1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert "\ufffd" in sent
    assert "ud83d" not in sent


def test_a_call_cut_inside_characters_runs_once_with_exactly_its_text() -> None:
    prompt = "a\u2028b\u0085c\u00e4\U0001f514"
    arguments = json.dumps({"prompt": prompt, "after_seconds": 600}, ensure_ascii=False)
    answer = call("schedule_create", arguments)
    server = ModelServer([Reply(bytewise(*answer.pieces)), say("Noted.")])
    agent = converse(server, say_in_turn("remind me"))
    (change,) = data(agent.session.events, "schedule/change")
    assert change["schedule"]["prompt"] == prompt
    assert data(agent.session.events, "tool/call")[0]["arguments"] == arguments
    assert data(agent.session.events, "assistant/message")[0]["usage"]["outputTokens"] == 5


def test_parallel_calls_run_and_their_results_go_back_in_order() -> None:
    prompts = [json.dumps({"prompt": f"p{index}", "after_seconds": 600}) for index in range(3)]
    calls = [
        fragment(index, text, id=f"c{index}", name="schedule_create") for index, text in enumerate(prompts)
    ]
    server = ModelServer([Reply([delta(tool_calls=calls), delta("tool_calls"), usage(), DONE]), say("Done.")])
    agent = converse(server, say_in_turn("three things"))
    assert [call_id for call_id, _ in results(agent.session.events)] == ["c0", "c1", "c2"]
    sent = [message.get("tool_call_id") for message in server.requests[1]["messages"]]
    assert sent == [None, None, "c0", "c1", "c2"]


def test_the_session_log_names_provider_and_model_and_never_the_key() -> None:
    agent = converse(ModelServer([say("ok")]), say_in_turn("hello"), provider="box")
    (header,) = data(agent.session.events, "request/header")
    assert header["header"]["config"] == {"provider": "box", "model": "m"}
