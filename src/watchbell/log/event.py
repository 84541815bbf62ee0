"""The event envelope: what each row of a session log is (log-format, "Event envelope").

An `Event` carries its payload as JSON bytes: they are encoded once, when the event is made, and decoded
only when somebody reads them. Key order in every struct is the order in which it is written. What a struct
holds is JSON, so none can be part of a cycle, and the collector is spared them (`gc=False`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from watchbell.errors import CorruptLogError
from watchbell.log.values import decode_json, decode_typed, encode_json

T = TypeVar("T")

SURFACE_TYPES = frozenset({"user/message", "assistant/message", "tool/result"})
"""Types that make up the transcript; only they may carry `sourceEventSeqs` and `surfaceOp`."""

OWN_PREFIX = "watchbell/"
"""Types of our own; they always carry `ignorable: true`."""

_WRITTEN_TYPES = {
    *SURFACE_TYPES,
    "agent/inbox/spliced",
    "assistant/chunk",
    "request/context",
    "request/header",
    "session/end-seed",
    "step/end",
    "step/start",
    "tool/call",
    "turn/end",
    "turn/start",
}
_CARRIED_TYPES = frozenset(
    """agent-preset/selected approval/asked approval/decided approval/policy command/done command/run
    compaction/end compaction/prune compaction/start compaction/summary feedback/record goal/change
    hook/invoked hook/result llm/retry llm/retry-started permission/preset plan/mode request/context
    sandbox/mode session/title session/title-llm-request subagent/descriptor team/member
    team/message/delivered team/message/queued team/task todo/write tool-workflow/agent-end
    tool-workflow/agent-start tool-workflow/run-end tool-workflow/run-start tool/code-dispatch
    tool/code-dispatch-start web/deepseek-search-llm-request""".split()  # noqa: SIM905 - one name a line would fill a screen
)
"""Types of other programs that are kept verbatim and otherwise left alone."""


def declare_type(name: str) -> str:
    """Have a type written and read that a part above the log gives a meaning to; returns the name.

    That is for types of the format that must not be ignored. It is done when the part is imported.

    Raises:
        RuntimeError: Logs are read or written already, without that type.
    """
    if name not in _WRITTEN_TYPES and written_types.cache_info().currsize:
        raise RuntimeError(f"{name!r} is declared too late: the types of events are in use")
    _WRITTEN_TYPES.add(name)
    return name


@cache
def written_types() -> frozenset[str]:
    """The types that Watchbell itself writes, besides its own `watchbell/...` ones."""
    return frozenset(_WRITTEN_TYPES)


@cache
def known_types() -> frozenset[str]:
    """The types that need not be ignorable."""
    return written_types() | _CARRIED_TYPES


class Event(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename={"raw": "data", "source_event_seqs": "sourceEventSeqs", "surface_op": "surfaceOp"},
):
    """One immutable event of a session log; encoding it gives its row.

    Attributes:
        type: Event type, such as `turn/start`.
        seq: Position in the log, from 0, without gaps.
        time: Epoch milliseconds at which it was appended.
        raw: The payload as compact JSON; `data` decodes it.
        source_event_seqs: JSON list of the seqs that this event was made from (surface types only).
        surface_op: JSON of how it enters the transcript: `"append"` or a replacement (surface types only).
        ignorable: Whether a program that does not know the type may skip it.
    """

    type: str
    seq: int
    time: int
    raw: msgspec.Raw
    source_event_seqs: msgspec.Raw | UnsetType = UNSET
    surface_op: msgspec.Raw | UnsetType = UNSET
    ignorable: bool = False

    @property
    def data(self) -> Any:
        """The payload, decoded anew at each access."""
        return decode_json(self.raw)

    def decode(self, shape: type[T]) -> T:
        """Decode the payload into the struct of its type, such as `payloads.TurnEnd`.

        Raises:
            CorruptLogError: It has another shape.
        """
        try:
            return decode_typed(self.raw, shape)
        except ValueError as error:
            raise CorruptLogError(f"event {self.seq} ({self.type}) is malformed") from error


class Replacement(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="op", tag="replace"
):
    """`surfaceOp` of a message that stands for those from `start` to before `end` of the transcript."""

    start: int
    end: int


class Draft(msgspec.Struct, frozen=True, gc=False):
    """An event that is not in a log yet: it has no seq and no time.

    `data` is any JSON value or msgspec struct, or `msgspec.Raw` with the finished JSON text.
    """

    type: str
    data: Any
    source_event_seqs: tuple[int, ...] | None = None
    surface_op: Literal["append"] | None = None
    ignorable: bool = False
    time: int | None = None

    def at(self, seq: int, time: int) -> Event:
        """Return the event that this draft becomes as number `seq` of a log."""
        raw = self.data if isinstance(self.data, msgspec.Raw) else msgspec.Raw(encode_json(self.data))
        sources = self.source_event_seqs
        return Event(
            self.type,
            seq,
            time if self.time is None else self.time,
            raw,
            UNSET if sources is None else msgspec.Raw(encode_json(sources)),
            UNSET if self.surface_op is None else msgspec.Raw(encode_json(self.surface_op)),
            self.ignorable,
        )
