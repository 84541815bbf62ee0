"""Renders `docs/explanation/costs.md`: `python -m tests.docs.render_costs`.

Sizes are measured, not typed in: bytes of UTF-8, and tokens of o200k_base, whose vocabulary `bpe-openai`
ships.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from watchbell.host.time_context import render_time_context
from watchbell.instants import decode_instant
from watchbell.reminders.decision import Batch, OneShot
from watchbell.reminders.framing import render_text
from watchbell.reminders.records import AfterRecord, EveryRecord
from watchbell.reminders.views import derive_view, render_view
from watchbell.schedule.tools import catalog_tools
from watchbell.zones import ZoneTable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "costs.md"
ENCODING = "o200k_base"
NOW_MS = decode_instant("2027-01-15T08:00:00.000Z")
AFTER = AfterRecord(
    "schedule-1", "Stretch, and drink some water.", "2027-01-15T08:20:00.000Z", after_seconds=1200
)
EVERY = [
    EveryRecord(f"schedule-{n}", f"Look at build {n}.", "2027-01-15T08:30:00.000Z", every_seconds=1800)
    for n in (2, 3, 4)
]
PAGE_TEXT = """\
# What the model pays

Schedule adds a fixed part to each request, and then only what happens: a result for each call, a message for
each delivery. Nothing is added for a reminder that waits, and nothing for an occurrence that was missed.

| what | when | how often | bytes | tokens |
|---|---|---|---|---|
{rows}

Bytes are UTF-8. Tokens are those of `{encoding}`, counted over the same text: a measure, not a bill, since
each provider lays out tools and messages in its own way. A schema is counted as the compact JSON of
`{{"type":"function","function":{{"name","description","parameters"}}}}`, and the other rows as the text that
the model reads. The examples:

```text
{one_shot}
```

```text
{batch}
```

## Where it stands

- The three schemas are the same bytes in every request of every process, in the order of their names: a fixed
  part in front of the conversation.
- Everything else is appended at the end of the history, and nothing before it changes. Each request begins
  with all that the one before it held, so what a provider has cached of that stays valid.
- Repeaters that are due together come as one message, each with its latest occurrence: a laptop that was
  closed for a week costs one message, not hundreds.
- The message about the time (`time_context`) is a plugin of its own. It comes with each message of a user and
  with each reminder, so that the time is known where it is needed; without the plugin it costs nothing.
- A result text is never longer than 64 KiB, and a prompt never than 16 KiB.

This page is rendered by `make costs`, and a test checks that it is fresh.
"""

Count = Callable[[str], int]


def render(count: Count) -> str:
    """The page.

    Args:
        count: Counts the tokens of a text.
    """
    examples = {"one_shot": _one_shot(), "batch": _batch()}
    return PAGE_TEXT.format(rows="\n".join(_rows(count)), encoding=ENCODING, **examples)


def load_counter() -> Count:
    """Return what counts tokens.

    Raises:
        ImportError: The tokenizer is not installed; it comes with the `dev` extra.
    """
    # It reads its vocabulary, also as late as at the first count, in a way that Python discourages.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        import bpe_openai

        encoding = bpe_openai.get_encoding(ENCODING)
        encoding.encode("")
    return lambda text: len(encoding.encode(text))


def _rows(count: Count) -> Iterator[str]:
    def row(what: str, when: str, often: str, *texts: str) -> str:
        size = sum(len(text.encode()) for text in texts)
        return f"| {what} | {when} | {often} | {size:,} | {sum(map(count, texts)):,} |"

    schemas = {tool.name: _json(_wire_tool(tool)) for tool in sorted(catalog_tools(), key=lambda t: t.name)}
    for name, text in schemas.items():
        yield row(f"schema of `{name}`", "always", "once a request", text)
    yield row("**all three schemas**", "always", "once a request", *schemas.values())
    view = render_view(derive_view(AFTER, NOW_MS))
    yield row("result of `schedule_create`", "the model creates", "once a call", _json(view))
    views = [render_view(derive_view(record, NOW_MS)) for record in (AFTER, *EVERY)]
    yield row("result of `schedule_list`, 4 active", "the model lists", "once a call", _json(views))
    deleted = {"id": "schedule-1", "deleted": True}
    yield row("result of `schedule_delete`", "the model deletes", "once a call", _json(deleted))
    yield row("message of a one-shot", "it is due", "once a reminder", _one_shot())
    yield row("message of a batch of 3", "repeaters are due", "once for all of them", _batch())
    yield row(
        "message about the time (`time_context`)", "a message opens a step", "once a step",
        render_time_context(NOW_MS, "Europe/Berlin", ZoneTable()),
    )  # fmt: skip


def _wire_tool(tool: Any) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _one_shot() -> str:
    return render_text(OneShot(AFTER))


def _batch() -> str:
    occurrence_ms = decode_instant(EVERY[0].scheduled_at)
    return render_text(Batch(tuple((record, occurrence_ms) for record in EVERY), occurrence_ms))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(load_counter()), encoding="utf-8")
