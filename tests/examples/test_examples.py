"""The programs in `examples/` do what they say, without waiting for it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.program import operations, require_valid
from watchbell import Host, JsonlStorage, OfflineModel, schedule
from watchbell.log.event import Event
from watchbell.testing import MemoryDisk, MemoryStorage, SimulatedClock, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    """Import an example without running it."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryDisk]:
    """Keep the disk of the store in memory that an example makes for itself."""
    kept = MemoryDisk()
    begin = MemoryStorage.__init__
    monkeypatch.setattr(MemoryStorage, "__init__", lambda self, disk=None: begin(self, disk or kept))
    yield kept
    for session_id in kept.headers:
        require_valid(kept.events(session_id))


def names(events: list[Event]) -> list[str]:
    """Name the tools that were called, in order."""
    return [event.data["name"] for event in events if event.type == "tool/call"]


def test_ten_lines_set_a_reminder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(load("ten_lines").main())
    assert "stretch (schedule-1)" in capsys.readouterr().out
    assert list(tmp_path.glob("home/sessions/*/standup/session.jsonl.zstd"))


def test_tools_of_ones_own_are_called_in_the_turn_of_a_reminder(disk: MemoryDisk) -> None:
    assert simulate(load("own_tools").main) == ["I look every half hour.", "release is green again."]
    assert names(disk.events("builds")) == ["schedule_create", "build_state", "restart_build"]


def test_another_frameworks_loop_answers_a_reminder_in_a_turn(disk: MemoryDisk) -> None:
    pytest.importorskip("pydantic_ai")
    said = simulate(load("pydantic_ai_runner").main)
    assert said == ["I will remind you at 2026-12-01T00:20:00.000Z.", "It is time to stretch!"]
    events = disk.events("standup")
    assert operations(events) == ["create schedule-1", "dispatch schedule-1"]
    assert names(events) == ["schedule_create"]
    opened = [event.data["source"] for event in events if event.type == "user/message"]
    assert opened[1]["plugin"] == "schedule"
    header = next(event.data["header"] for event in events if event.type == "request/header")
    assert header["config"] == {"provider": "pydantic-ai", "model": "function"}


def test_a_pydantic_ai_agent_has_its_conversation_and_what_is_steered_in(disk: MemoryDisk) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.messages import UserPromptPart
    from pydantic_ai.models.function import FunctionModel

    example = load("pydantic_ai_runner")
    heard: list[list[str]] = []

    async def listen(messages: list[Any], _: Any) -> AsyncIterator[str]:
        heard.append([str(p.content) for m in messages for p in m.parts if isinstance(p, UserPromptPart)])
        await asyncio.sleep(1)
        yield "I see."

    async def main(clock: SimulatedClock) -> None:
        loop = PydanticAgent(FunctionModel(stream_function=listen))
        runner = example.PydanticAIRunner(loop, provider="pydantic-ai", model="function")
        async with Host(storage=MemoryStorage(), model=runner, clock=clock) as host:
            agent = await host.agents.create("s")
            agent.followup("one")
            await agent.when_idle()
            agent.followup("two")
            await asyncio.sleep(0.5)
            agent.steer("three")
            await agent.when_idle()

    simulate(main)
    assert heard == [["one"], ["one", "two"], ["one", "two", "three"]]
    assert len([event for event in disk.events("s") if event.type == "turn/start"]) == 2


def test_the_keeper_tells_the_reminders_of_the_sessions_that_it_keeps() -> None:
    disk = MemoryDisk()
    keeper = load("keeper")
    told: list[tuple[str, str]] = []

    async def main(clock: SimulatedClock) -> None:
        def host() -> Host:
            return Host(
                storage=MemoryStorage(disk), model=OfflineModel(), plugins=[schedule.plugin()], clock=clock
            )

        async with host() as first:
            agent = await first.agents.create("standup")
            agent.followup("remind me in 20 minutes to stretch")
            await agent.when_idle()
        async with host() as second:
            stop = asyncio.Event()
            kept = asyncio.create_task(
                keeper.keep(second, ["standup"], lambda *line: told.append(line), stop)
            )
            await asyncio.sleep(1201)
            stop.set()
            await kept

    simulate(main)
    assert [session_id for session_id, _ in told] == ["standup"]
    assert "stretch" in told[0][1]


def test_the_keeper_ends_in_order_when_it_is_told_to(tmp_path: Path) -> None:
    keeper = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "keeper.py"), "standup"],
        env=os.environ | {"WATCHBELL_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    assert "standup" in keeper.stdout.readline()
    keeper.send_signal(signal.SIGTERM)
    rest, _ = keeper.communicate(timeout=60)
    assert (keeper.returncode, rest) == (0, "")


def test_the_keeper_has_the_settings_of_the_command(tmp_path: Path) -> None:
    async def remind() -> None:
        async with Host(
            storage=JsonlStorage(tmp_path), model=OfflineModel(), plugins=[schedule.plugin()]
        ) as host:
            agent = await host.agents.create("standup")
            agent.followup("remind me in 1 second to list my reminders")
            await agent.when_idle()

    asyncio.run(remind())
    settings = {"WATCHBELL_HOME": str(tmp_path), "TZ": "Asia/Tokyo", "WATCHBELL_SYSTEM": "Be brief."}
    keeper = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "keeper.py"), "standup"],
        env=os.environ | settings | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    assert "keeping" in keeper.stdout.readline()
    assert "Reminder" in keeper.stdout.readline()
    keeper.send_signal(signal.SIGTERM)
    keeper.communicate(timeout=60)
    stored = asyncio.run(JsonlStorage(tmp_path).read("standup"))
    assert "Asia/Tokyo" in str([event.data for event in stored.events])


def test_the_readme_shows_the_ten_lines_as_they_are() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    assert (EXAMPLES / "ten_lines.py").read_text(encoding="utf-8") in readme
