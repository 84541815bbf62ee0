"""Durable reminders for Python agents.

```python
import asyncio

from watchbell import Host, JsonlStorage, OfflineModel, schedule


async def main() -> None:
    storage, model = JsonlStorage("~/.watchbell"), OfflineModel()
    async with Host(storage=storage, model=model, plugins=[schedule.plugin()]) as host:
        agent = await host.agents.open("standup")
        answer = await agent.ask("Remind me in 20 minutes to stretch.")
        print(answer.text)
        await agent.when_idle()


asyncio.run(main())
```
"""

from importlib.metadata import version

from watchbell import schedule
from watchbell.agent.agent import Agent
from watchbell.agent.answers import AnswerRecorder
from watchbell.agent.asking import Answer
from watchbell.agent.core import Reservation
from watchbell.agent.registry import AgentRegistry
from watchbell.agent.runner import TurnRecorder, TurnRunner
from watchbell.clock import Clock, SystemClock
from watchbell.context import Context, Plugin
from watchbell.errors import (
    AgentBusyError,
    AgentClosedError,
    AgentError,
    CompositionError,
    CorruptLogError,
    InvalidEventError,
    LogError,
    ModelError,
    PersistenceError,
    ScheduleLogError,
    SessionClosedError,
    SessionError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SettingsError,
    ToolAbortedError,
    ToolConflictError,
    ToolError,
    TurnError,
    UnsupportedLogError,
    WatchbellError,
    ZoneDataError,
)
from watchbell.host import Host, time_context
from watchbell.log.event import Event
from watchbell.log.header import SessionHeader
from watchbell.log.messages import Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock
from watchbell.log.payloads import ToolSpec
from watchbell.models.base import ChatModel, ModelRequest
from watchbell.models.openai.model import OpenAIModel
from watchbell.offline.model import OfflineModel
from watchbell.sessions.live import Sessions
from watchbell.sessions.session import Session
from watchbell.storage.base import SessionPersistence
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.tools.definition import AbortSignal, ErrorValue, Tool, ToolExecution
from watchbell.tools.function import tool
from watchbell.tools.registry import ToolOutcome, ToolRegistry

__version__ = version("watchbell")

__all__ = [
    "AbortSignal",
    "Agent",
    "AgentBusyError",
    "AgentClosedError",
    "AgentError",
    "AgentRegistry",
    "Answer",
    "AnswerRecorder",
    "ChatModel",
    "Clock",
    "CompositionError",
    "Context",
    "CorruptLogError",
    "ErrorValue",
    "Event",
    "Host",
    "InvalidEventError",
    "JsonlStorage",
    "LogError",
    "Message",
    "ModelError",
    "ModelRequest",
    "OfflineModel",
    "OpenAIModel",
    "PersistenceError",
    "Plugin",
    "ReasoningBlock",
    "Reservation",
    "ScheduleLogError",
    "Session",
    "SessionClosedError",
    "SessionError",
    "SessionExistsError",
    "SessionHeader",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionPersistence",
    "Sessions",
    "SettingsError",
    "SystemClock",
    "TextBlock",
    "Tool",
    "ToolAbortedError",
    "ToolCallBlock",
    "ToolConflictError",
    "ToolError",
    "ToolExecution",
    "ToolOutcome",
    "ToolRegistry",
    "ToolResultBlock",
    "ToolSpec",
    "TurnError",
    "TurnRecorder",
    "TurnRunner",
    "UnsupportedLogError",
    "WatchbellError",
    "ZoneDataError",
    "schedule",
    "time_context",
    "tool",
]
