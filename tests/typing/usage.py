"""Public usage as a type checker sees it: never run, checked by `make types`."""

from __future__ import annotations

from typing import assert_type

import watchbell
from watchbell.errors import ScheduleLogError, WatchbellError

assert_type(watchbell.__version__, str)


def every_error_has_one_base(error: ScheduleLogError) -> WatchbellError:
    """One `except WatchbellError` catches all that is raised on purpose."""
    return error
