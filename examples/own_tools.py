"""Tools of one's own beside Schedule: a reminder comes back, and the model looks at the build by itself.

The model is scripted and the time simulated, so that this needs no key and takes no half hour. In a real
program the model is an `OpenAIModel`, the storage a `JsonlStorage`, and there is no `clock` to hand over.
"""

import asyncio
from typing import Annotated

from msgspec import Meta

from watchbell import Host, ModelRequest, ToolExecution, schedule, tool
from watchbell.testing import MemoryStorage, Part, ScriptedModel, SimulatedClock, call, say, simulate

BUILDS = {"main": "green", "release": "red"}


@tool
async def build_state(branch: Annotated[str, Meta(description="the branch, such as main")]) -> str:
    """Say whether the last build of a branch is green or red."""
    return BUILDS.get(branch, "unknown")


@tool
async def restart_build(execution: ToolExecution, branch: str) -> dict[str, str]:
    """Build a branch again; takes a minute."""
    await asyncio.sleep(60)  # is cancelled together with the turn
    BUILDS[branch] = "green"
    return {"branch": branch, "requestedBy": execution.call_id}


def answer(request: ModelRequest) -> Part:
    """Answer as a model would: by what stands last in the conversation."""
    last = request.messages[-1]
    if last.text.startswith("Look"):
        return call("schedule_create", {"prompt": "look at release", "every_seconds": 1800})
    if last.text.startswith("[SCHEDULE REMINDER BATCH]"):
        return call("build_state", {"branch": "release"})
    result = last.content[0].content[0].text
    if result == "red":
        return call("restart_build", {"branch": "release"})
    return say("release is green again." if "requestedBy" in result else "I look every half hour.")


async def main(clock: SimulatedClock) -> list[str]:
    """Watch a build for half an hour, and return what was said."""
    async with Host(
        storage=MemoryStorage(),
        model=ScriptedModel(answer),
        plugins=[schedule.plugin()],
        tools=[build_state, restart_build],
        clock=clock,
    ) as host:
        agent = await host.agents.create("builds")
        agent.followup("Look at the release build every half hour.")
        await asyncio.sleep(1801)
        await agent.when_idle()
        return [
            message.text for message in agent.transcript() if message.role == "assistant" and message.text
        ]


if __name__ == "__main__":
    for line in simulate(main):
        print(line)
