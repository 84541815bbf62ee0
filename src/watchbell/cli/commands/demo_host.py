"""The host process that `watchbell demo` starts in order to kill it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

import typer

from watchbell.cli.console.guard import guarded
from watchbell.cli.console.signals import run_stoppable
from watchbell.cli.options import DEFAULT_HOME, HomeOption
from watchbell.cli.program import Program
from watchbell.host.settings import Settings
from watchbell.log.messages import Chunk
from watchbell.models.base import ModelRequest
from watchbell.offline.model import OfflineModel
from watchbell.reminders.framing import PLUGIN_NAME

__all__ = ["demo_host"]

PAUSE_SECONDS = 60.0
"""How long this host's model thinks about a reminder: long enough to be killed in the middle."""


@guarded
def demo_host(
    session: Annotated[str, typer.Argument()],
    text: Annotated[str, typer.Argument()],
    home: HomeOption = DEFAULT_HOME,
) -> int:
    """Resume a session, say one thing, and begin to answer the reminder that comes of it."""
    program = Program.compose(Settings(home=home))
    return run_stoppable(_serve(program, session, text))


async def _serve(program: Program, session_id: str, text: str) -> int:
    async with program.host() as host:
        agent = await host.agents.resume(session_id, model=_ThoughtfulModel())
        agent.followup(text, source=program.person)
        await asyncio.sleep(PAUSE_SECONDS)
    return 0


class _ThoughtfulModel(OfflineModel):
    """The offline model, but it thinks for a long time before it presents a reminder."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if request.messages[-1].source.get("plugin") == PLUGIN_NAME:
            await asyncio.sleep(PAUSE_SECONDS)
        async for chunk in super().stream(request):
            yield chunk
