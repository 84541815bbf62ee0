"""Keeps sessions open, so that their reminders come on time with no terminal in sight: `keeper.py ID…`.

Whoever is to hear of an answer is told by `tell`; here that is a line for the journal. The host is composed
as the `watchbell` command does it, with all its settings. SIGTERM and SIGINT end it: a reminder's turn that
runs then is taken up at the next start.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

from watchbell import Agent, Event, Host
from watchbell.cli.program import Program
from watchbell.host.settings import load_settings


def tell(session_id: str, text: str) -> None:
    """Pass an answer on; put a mail, a push message or a chat post here."""
    print(f"{session_id}: {text}", flush=True)


def listen(agent: Agent, say: Callable[[str, str], None], events: Sequence[Event]) -> None:
    """Tell the answers that came with new events, and why a turn failed."""
    for event in events:
        if event.type == "assistant/message":
            blocks = event.data["message"]["content"]
            if text := "".join(block["text"] for block in blocks if block["type"] == "text"):
                say(agent.id, text)
        elif event.type == "turn/end" and (error := event.data["reason"].get("error")):
            say(agent.id, f"the turn failed: {error['message']} ({error['code']})")


async def keep(
    host: Host, session_ids: Sequence[str], say: Callable[[str, str], None], stop: asyncio.Event
) -> None:
    """Keep the sessions open until `stop` is set."""
    for session_id in session_ids:
        agent = await host.agents.open(session_id)
        agent.session.observe(partial(listen, agent, say))
    print(f"keeping {', '.join(session_ids)}", flush=True)
    await stop.wait()


async def main(session_ids: Sequence[str]) -> None:
    """Keep sessions of the home of the settings until a signal comes."""
    program = Program.compose(load_settings(env=os.environ).settings)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with program.host() as host:
        await keep(host, session_ids, tell, stop)


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit("usage: keeper.py SESSION…")
    asyncio.run(main(sys.argv[1:]))
