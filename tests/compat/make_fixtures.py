"""Writes the logs in `fixtures/` with Watchbell's own code: `python -m tests.compat.make_fixtures`.

The logs are what a released version wrote. They stay as they are: a change that makes the test beside this
fail either breaks the promise to read and write the same bytes, or is a new version of the format.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sys
from pathlib import Path

from tests.program import ask, quiet
from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.host import Host
from watchbell.log.event import Draft
from watchbell.storage.jsonl.layout import Compression, find_logs
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.testing import ScriptedModel, SimulatedClock, call, hang, say, simulate, think
from watchbell.testing.model import Answer

__all__ = ["FIXTURES", "write_fixtures"]

FIXTURES = Path(__file__).parent / "fixtures"
START = "2026-12-01T00:00:00.000Z"
CWD = "/srv/projects/stand up/ünï"

_TALK: list[Answer] = [
    (
        think("The user wants to be reminded, once and again and again."),
        say("Setting that up: "),
        call("schedule_create", {"prompt": "stretch — ☕", "after_seconds": 60}),
        call("schedule_create", {"prompt": 'say "hi"\nto \u2028 all', "every_seconds": 300}),
        call("schedule_create", {"prompt": "too soon", "every_seconds": 60}),
        call("no_such_tool", '{"half": "\\ud83d"}'),
    ),
    "Both are set, the third came too often.",
    "Time to stretch.",
    "Hi.",
]


async def _talk(host: Host) -> None:
    """A turn with tools, then a reminder of each kind; a fork of it, and one of that."""
    agent = await host.agents.create("talk", cwd=CWD)
    agent.followup("Remind me to stretch in a minute, and to say hi every five.")
    await quiet(agent)
    await asyncio.sleep(400)
    await quiet(agent)
    fork = await host.agents.fork(agent, "fork")
    await ask(fork, "schedule_create", prompt="the child's own", at="2999-12-31T23:00:00Z")
    await ask(fork, "schedule_delete", id="schedule-1")
    grandchild = await host.agents.fork(fork, "fork of fork")
    await ask(grandchild, "schedule_create", prompt="the grandchild's own", after_seconds=7200)


async def _fail(host: Host) -> None:
    """A session without a project, whose name needs escapes, and whose turn is cancelled."""
    agent = await host.agents.create("failed turns ~ é/..")
    agent.followup("Hello?")
    await asyncio.sleep(1)
    agent.cancel()
    await quiet(agent)


async def _interrupt(host: Host) -> Agent:
    """A turn that is still open, with a call that has no result."""
    agent = await host.agents.create("interrupted", cwd="/srv/projects/alpha")
    agent.followup("Remind me in two hours to survive the crash.")
    await asyncio.sleep(1)
    return agent


def _mark(agent: Agent) -> None:
    """Events of our own, and the strangest text."""
    agent.session.append_batch([Draft("watchbell/note", {"text": "half a pair: \ud83d"}, ignorable=True)])


async def _write(home: Path, compression: Compression, target: Path, clock: SimulatedClock) -> None:
    ids = (f"id-{number}" for number in itertools.count(1))
    scripts: list[Answer] = [
        *_TALK,
        (say("Well, "), hang()),
        (call("schedule_create", {"prompt": "survive the crash", "after_seconds": 7200}),),
        (say("half an answer"), hang()),
    ]
    host = Host(
        storage=JsonlStorage(home, compression=compression, now_ms=clock.now_ms),
        model=ScriptedModel(scripts),
        plugins=[schedule.plugin()],
        system="You are a helpful assistant.",
        clock=clock,
        new_id=lambda: next(ids),
    )
    async with host:
        await _talk(host)
        await _fail(host)
        agent = await _interrupt(host)
        _mark(agent)
        for session in host.sessions.live:
            await host.sessions.flush(session)
        # As it lies while everything is still open: what a crash now would leave.
        for path in find_logs(home):
            copy = target / path.relative_to(home / "sessions")
            copy.parent.mkdir(parents=True)
            shutil.copyfile(path, copy)


def write_fixtures(target: Path, scratch: Path) -> None:
    """Write the logs of all sessions, in both encodings.

    Args:
        target: A directory that is not there yet.
        scratch: An existing directory for the homes that they are written in.
    """
    kinds: list[Compression] = ["zstd", "none"]
    for kind in kinds:
        simulate(lambda clock, kind=kind: _write(scratch / kind, kind, target / kind, clock), start=START)


if __name__ == "__main__":
    import tempfile

    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES
    with tempfile.TemporaryDirectory() as name:
        write_fixtures(chosen, Path(name))
