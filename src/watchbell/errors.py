"""Every error that Watchbell raises on purpose.

```
WatchbellError
├── CompositionError              a plugin or service that another one needs is missing
├── LogError
│   ├── CorruptLogError           bytes on disk that no sound writer leaves behind
│   ├── UnsupportedLogError       a sound log that needs a newer or another program
│   └── InvalidEventError         an event refused before it entered the log (also ValueError)
├── ScheduleLogError              a sound log whose Schedule stream is invalid
├── SessionError
│   ├── SessionNotFoundError      no session of that id (also LookupError)
│   ├── SessionExistsError        the id is taken
│   ├── SessionLockedError        another opener holds the session
│   └── SessionClosedError        the session is no longer live
├── PersistenceError              the disk or database did not confirm a write (also OSError)
├── AgentError
│   ├── AgentBusyError            a turn or another task owns the agent
│   ├── AgentClosedError          the agent was disposed
│   └── TurnError                 a turn ended without an answer
├── ToolError
│   ├── ToolConflictError         two tools of one name in one scope
│   └── ToolAbortedError          a call cancelled before it did anything
├── ModelError                    a model's answer failed
├── SettingsError                 a setting or an argument that cannot be used (also ValueError)
└── ZoneDataError                 the time zone data is missing or damaged
```

Each message says what to do next. `code` exists only where an error reaches a model, a shell or a
browser. `asyncio.CancelledError` is none of these and always passes.
"""

from __future__ import annotations

__all__ = [
    "AgentBusyError",
    "AgentClosedError",
    "AgentError",
    "CompositionError",
    "CorruptLogError",
    "InvalidEventError",
    "LogError",
    "ModelError",
    "PersistenceError",
    "ScheduleLogError",
    "SessionClosedError",
    "SessionError",
    "SessionExistsError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SettingsError",
    "ToolAbortedError",
    "ToolConflictError",
    "ToolError",
    "TurnError",
    "UnsupportedLogError",
    "WatchbellError",
    "ZoneDataError",
]


class WatchbellError(Exception):
    """Base of every error that Watchbell raises on purpose."""


class CompositionError(WatchbellError):
    """A plugin was loaded, or a service asked for, without what it requires."""


class LogError(WatchbellError):
    """A session log, or an event meant for one, cannot be used."""


class CorruptLogError(LogError):
    """The bytes of a session log are damaged; nothing on disk was changed.

    Attributes:
        path: The file, or another name of the place, that holds the log.
        offset: Byte offset of the damaged frame or line in the file as stored; None when no single
            place is at fault.
        reason: What is wrong there, in one clause.
    """

    code = "corrupt_log"

    def __init__(self, reason: str, *, path: str = "", offset: int | None = None) -> None:
        self.path = path
        self.offset = offset
        self.reason = reason
        at = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{path or 'session log'} is damaged{at}: {reason}")


class UnsupportedLogError(LogError):
    """The log is sound but holds something that this version must not ignore."""

    code = "unsupported_log"

    def __init__(self, reason: str, *, path: str = "") -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}" if path else reason)


class InvalidEventError(LogError, ValueError):
    """An event was refused before it entered the log; the log is as it was."""


class ScheduleLogError(WatchbellError):
    """The `schedule/change` events of a sound log do not make a valid history (contract section 2).

    Attributes:
        seq: Sequence number of the first bad event, None when the fork point itself is bad.
        reason: What is wrong with it, in one clause.
    """

    code = "corrupt_schedule_log"

    def __init__(self, reason: str, *, seq: int | None = None) -> None:
        self.seq = seq
        self.reason = reason
        at = "" if seq is None else f" at event {seq}"
        super().__init__(f"the schedule history is invalid{at}: {reason}")


class SessionError(WatchbellError):
    """A session cannot be opened, found or used."""


class SessionNotFoundError(SessionError, LookupError):
    """There is no session of that id."""

    code = "session_not_found"


class SessionExistsError(SessionError):
    """A session of that id exists already."""

    code = "session_exists"


class SessionLockedError(SessionError):
    """Another opener, in this or another process, has the session open for work.

    Attributes:
        session_id: The session.
        holder: Process id of the holder, None when it did not say.
        since: Instant at which the holder opened it, canonical UTC, None when it did not say.
    """

    code = "session_locked"

    def __init__(self, session_id: str, *, holder: int | None = None, since: str | None = None) -> None:
        self.session_id = session_id
        self.holder = holder
        self.since = since
        who = "another program" if holder is None else f"process {holder}"
        when = "" if since is None else f" since {since}"
        super().__init__(
            f"session {session_id!r} is open in {who}{when}; close it there first "
            "(reading it is always possible)"
        )


class SessionClosedError(SessionError):
    """The session was closed; open it again to go on."""

    code = "session_closed"


class PersistenceError(WatchbellError, OSError):
    """A write was not confirmed as durable; the events are kept and will be tried again."""

    code = "persistence_uncertain"


class AgentError(WatchbellError):
    """An agent cannot do what was asked."""


class AgentBusyError(AgentError):
    """A turn, queued input or another maintenance task owns the agent."""

    code = "agent_busy"


class AgentClosedError(AgentError):
    """The agent was disposed; resume its session for a new one."""

    code = "agent_closed"


class TurnError(AgentError):
    """The turn that should have answered did not.

    Attributes:
        code: Stable upper-case word: that of the failure, such as `PROVIDER_ERROR`; or `ABORTED` when
            somebody cancelled the turn, `BLOCKED` when a hook rejected the message, `DISCARDED` when
            it was withdrawn before any turn.
        reason: Why the turn ended, as `turn/end` in the log has it; None when there was no turn.
        turn: Number of the turn in its session, None when there was none.
    """

    def __init__(
        self, message: str, *, code: str, reason: object | None = None, turn: int | None = None
    ) -> None:
        self.code = code
        self.reason = reason
        self.turn = turn
        super().__init__(message)


class ToolError(WatchbellError):
    """A tool cannot be registered or run."""


class ToolConflictError(ToolError, ValueError):
    """A tool of that name is registered in this scope already."""


class ToolAbortedError(ToolError):
    """A tool call was cancelled before it had any effect."""

    code = "TOOL_ABORTED"


class ModelError(WatchbellError):
    """A model's answer failed.

    Attributes:
        code: Stable upper-case word such as `PROVIDER_ERROR`, `RATE_LIMITED`, `AUTHENTICATION`.
        status: HTTP status, None when there was no response.
        retry_after_ms: How long the provider asked to wait, milliseconds.
        request_id: The provider's own id of the request.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "PROVIDER_ERROR",
        status: int | None = None,
        retry_after_ms: int | None = None,
        request_id: str | None = None,
    ) -> None:
        self.code = code
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.request_id = request_id
        super().__init__(message)


class SettingsError(WatchbellError, ValueError):
    """A setting or an argument cannot be used as given."""

    code = "invalid_setting"


class ZoneDataError(WatchbellError):
    """The installed `tzdata` package lacks the time zone data that Watchbell resolves local times with."""

    code = "zone_data_missing"
