"""Another framework's loop answers the turns: here Pydantic AI's. The log, the inbox and Schedule stay ours.

`PydanticAIRunner` is what to copy; the rest shows it at work, with Pydantic AI's own test model and under
simulated time. A reminder is created by a tool call of Pydantic AI's loop, and twenty minutes later it comes
back as a turn that Pydantic AI answers.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from watchbell import (
    AnswerRecorder,
    Host,
    Message,
    ModelError,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultBlock,
    TurnRecorder,
    schedule,
)
from watchbell.testing import MemoryStorage, SimulatedClock, simulate


class PydanticAIRunner:
    """A `TurnRunner` that has a Pydantic AI agent answer; the tools of our agent are added to its own."""

    context_window: int | None = None

    def __init__(self, agent: PydanticAgent[None, str], *, provider: str, model: str) -> None:
        self._agent = agent
        self.provider = provider
        self.model = model

    async def run_turn(self, turn: TurnRecorder) -> None:
        """Run Pydantic AI's loop once over the conversation, and report each answer of its model."""
        toolset = FunctionToolset([_adapt(tool, turn) for tool in turn.tools])
        history = list(_to_pydantic(turn.transcript()))
        try:
            async with self._agent.iter(
                message_history=history, instructions=turn.system, toolsets=[toolset]
            ) as run:
                async for node in run:
                    if not PydanticAgent.is_model_request_node(node):
                        continue
                    async with turn.answer() as answer:
                        steered = [UserPromptPart(message.text) for message in answer.entered]
                        node.request.parts = [*node.request.parts, *steered]
                        async with node.stream(run.ctx) as stream:
                            async for event in stream:
                                _record(event, answer)
                        for part in stream.response.parts:
                            if isinstance(part, ToolCallPart):
                                answer.call(part.tool_call_id, part.tool_name, part.args_as_json_str())
        except ModelAPIError as error:
            raise ModelError(f"{error.model_name} failed", code="PROVIDER_ERROR") from error


def _adapt(tool: Tool, turn: TurnRecorder) -> PydanticTool[None]:
    """Make one of our tools callable for Pydantic AI; the call and its result enter our log."""

    async def run(context: RunContext[None], **_: Any) -> str:
        outcome = await turn.call(context.tool_call_id or "")
        return outcome.text

    return PydanticTool.from_schema(run, tool.name, tool.description, tool.parameters, takes_ctx=True)


def _record(event: object, answer: AnswerRecorder) -> None:
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ):
            answer.text(text)
        case (
            PartStartEvent(part=ThinkingPart(content=text))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text)))
        ):
            answer.reasoning(text)
        case _:
            pass  # a tool call is recorded when it is whole


def _to_pydantic(messages: Iterable[Message]) -> Iterable[ModelMessage]:
    """Translate a conversation. It ends with a request, which Pydantic AI then answers."""
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            answered: list[ModelResponsePart] = []
            for block in message.content:
                if isinstance(block, TextBlock):
                    answered.append(TextPart(block.text))
                elif isinstance(block, ToolCallBlock):
                    names[block.id] = block.name
                    answered.append(ToolCallPart(block.name, block.arguments, block.id))
            yield ModelResponse(answered)
        elif isinstance(result := message.content[0], ToolResultBlock):
            text = "".join(block.text for block in result.content)
            yield ModelRequest([ToolReturnPart(names[result.tool_call_id], text, result.tool_call_id)])
        else:
            yield ModelRequest([UserPromptPart(message.text)])


async def assistant(
    messages: list[ModelMessage], info: AgentInfo
) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    """Stand in for a model, as Pydantic AI's tests do: one that can set a reminder and present it."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        yield f"I will remind you at {json.loads(str(last.content))['scheduledAt']}."
    elif isinstance(last, UserPromptPart) and str(last.content).startswith("[SCHEDULE REMINDER]"):
        yield "It is time "
        yield "to stretch!"
    else:
        arguments = json.dumps({"prompt": "stretch", "after_seconds": 1200})
        yield {0: DeltaToolCall("schedule_create", arguments, tool_call_id="call-1")}


async def main(clock: SimulatedClock) -> list[str]:
    """Ask for a reminder, wait for it, and return what Pydantic AI's loop answered."""
    loop = PydanticAgent(FunctionModel(stream_function=assistant), instructions="Be brief.")
    runner = PydanticAIRunner(loop, provider="pydantic-ai", model="function")
    async with Host(storage=MemoryStorage(), model=runner, plugins=[schedule.plugin()], clock=clock) as host:
        agent = await host.agents.create("standup")
        agent.followup("Remind me in 20 minutes to stretch.")
        await asyncio.sleep(1201)
        await agent.when_idle()
        return [
            message.text for message in agent.transcript() if message.role == "assistant" and message.text
        ]


if __name__ == "__main__":
    for line in simulate(main):
        print(line)
