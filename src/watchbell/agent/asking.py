"""Asking an agent: the answer of the turn that a text opens, or the error that says why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from watchbell.agent.core import Core
from watchbell.errors import AgentClosedError, TurnError
from watchbell.log.event import Event
from watchbell.log.eventlog import EventLog
from watchbell.log.messages import Message, ToolCallBlock
from watchbell.log.payloads import Aborted, AssistantMessage, Blocked, Completed, Failed, MaxTokens, TurnEnd
from watchbell.log.projection import AnyRow, EnteredRow, Projection, Reader, TurnEndRow


class Answer(msgspec.Struct, frozen=True):
    """What an agent answered, once the turn is over.

    Attributes:
        text: The text of the last message of the turn.
        message: That message.
        tool_calls: All tool calls of the turn, in order.
        usage: Token counts of the last message as the provider gave them; None when it gave none.
        turn: Number of the turn in its session.
        is_cut_short: Whether the answer reached its length limit.
    """

    text: str
    message: Message
    tool_calls: tuple[ToolCallBlock, ...]
    usage: dict[str, Any] | None
    turn: int
    is_cut_short: bool = False


class _AnswerRow(AnyRow, frozen=True, gc=False, tag_field="type", tag="assistant/message"):
    data: AssistantMessage


_Row: TypeAlias = EnteredRow | _AnswerRow | TurnEndRow


class _Question(Projection[_Row]):
    """A projection: what has become of a pending message, from now on.

    The agent's scope calls it when it ends.

    Attributes:
        over: Done once the turn is over, there will be none, or the agent was disposed.
    """

    reader = Reader(
        frozenset({"user/message", "assistant/message", "turn/end"}), msgspec.json.Decoder[_Row](_Row)
    )

    def __init__(self, core: Core, message_id: str) -> None:
        super().__init__(len(core.session.events))
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._core = core
        self._message_id = message_id
        self._has_entered = False
        self._is_discarded = False
        self._answers: list[AssistantMessage] = []
        self._end: TurnEnd | None = None

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self.over.done()

    def __call__(self) -> None:
        """Let go of whoever waits."""
        if not self.is_over:
            self.over.set_result(None)

    def look(self, _: Sequence[Event] = ()) -> None:
        """Look at what the log has gained."""
        if self.is_over:
            return
        if not self._has_entered:
            self._end = None  # another turn's
        self.advance(self._core.session.events)
        # A turn takes a message out of the inbox and enters it in one batch; all else discards it.
        self._is_discarded = not self._has_entered and not self._core.inbox.holds(self._message_id)
        if self._is_discarded or (self._has_entered and self._end is not None):
            self()

    def fold(self, rows: Sequence[_Row], log: EventLog) -> None:
        """Note the answers and the end of the message's turn."""
        for row in rows:
            match row:
                case EnteredRow() if row.data.id == self._message_id:
                    self._has_entered, self._end = True, None
                case _AnswerRow() if self._has_entered and self._end is None:
                    self._answers.append(row.data)
                case TurnEndRow() if not self._has_entered or self._end is None:
                    self._end = row.data
                case _:
                    pass

    def answer(self) -> Answer:
        """Return the answer.

        Raises:
            TurnError: There is none.
            AgentClosedError: There is none because the agent was disposed.
        """
        end, is_discarded = self._end, self._is_discarded
        if is_discarded and (end is None or not isinstance(end.reason, Blocked)):
            raise TurnError("the message was discarded before its turn began", code="DISCARDED")
        if end is None or not (self._has_entered or is_discarded) or end.reason.is_loss:
            raise AgentClosedError(f"agent {self._core.session.id!r} was disposed before it had answered")
        if not isinstance(end.reason, Completed | MaxTokens) or not self._answers:
            raise _error(end)
        last = self._answers[-1]
        blocks = [block for answer in self._answers for block in answer.message.complete().content]
        calls = tuple(block for block in blocks if isinstance(block, ToolCallBlock))
        message = last.message.complete()
        is_cut_short = isinstance(end.reason, MaxTokens)
        return Answer(message.text, message, calls, last.usage, end.turn, is_cut_short)


def _error(end: TurnEnd) -> TurnError:
    match end.reason:
        case Failed(error=error):
            text, code = error.message, error.code
        case Aborted(reason=reason):
            text, code = f"it was cancelled ({reason.kind})", "ABORTED"
        case Blocked():
            text, code = "a hook rejected the message", "BLOCKED"
        case _:
            text, code = "it ended without an answer", "EMPTY_ANSWER"
    return TurnError(f"turn {end.turn} failed: {text}", code=code, reason=end.reason, turn=end.turn)


async def answer_to(core: Core, message: Message) -> Answer:
    """Wait for the answer to a message that is pending.

    Raises:
        TurnError: The turn ended without one.
        AgentClosedError: The agent was disposed before it had answered.
    """
    question = _Question(core, message.id)
    stop = core.session.observe(question.look)
    core.ctx.defer(question)
    try:
        question.look()  # an observer of the message's own batch may have discarded it
        await question.over
    finally:
        stop()
    return question.answer()
