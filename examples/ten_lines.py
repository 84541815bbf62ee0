"""A reminder in ten lines. It is in the session's log; whatever opens the session next delivers it."""

import asyncio

from watchbell import Host, JsonlStorage, OfflineModel, schedule


async def main() -> None:
    """Set a reminder, and say what the model answered."""
    storage = JsonlStorage("./home")
    async with Host(storage=storage, model=OfflineModel(), plugins=[schedule.plugin()]) as host:
        agent = await host.agents.open("standup")
        answer = await agent.ask("Remind me in 20 minutes to stretch.")
        print(answer.text)
        await agent.when_idle()


if __name__ == "__main__":
    asyncio.run(main())
