"""A conversation as Chat Completions messages.

The transcript is left as it is; what a provider would refuse is mended here, on the wire only:

- User messages in a row become one (several chat templates demand that roles alternate).
- Each answer with tool calls is followed by exactly their results, in the order of the calls.
- No half of a surrogate pair, only allowed letters in tool names, a JSON object as tool arguments.
- Blocks of a kind unknown here, reasoning and empty messages are left out.
- The conversation ends with something to answer.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from watchbell.log.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from watchbell.models.openai._json import items, member

WireMessage = dict[str, Any]

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
_NO_RESULT = "The call was interrupted; it is not known whether it had any effect."
_GO_ON = "(Your last answer was interrupted. Please answer again.)"


def wire_messages(system: str | None, messages: Iterable[Message]) -> list[WireMessage]:
    """Return the messages of a request.

    Args:
        system: The system prompt, None for none.
        messages: The conversation, oldest first.
    """
    conversation = list(messages)
    wire: list[WireMessage] = []
    for position, message in enumerate(conversation):
        if message.role == "assistant":
            _add_answer(wire, message, _results_after(conversation, position))
        elif text := _text(message.content):
            _add_text(wire, "user", text)
    if wire and wire[-1]["role"] == "assistant":
        _add_text(wire, "user", _GO_ON)
    return wire if system is None else [{"role": "system", "content": _mend(system)}, *wire]


def _add_text(wire: list[WireMessage], role: str, text: str) -> None:
    if wire and wire[-1]["role"] == role and "tool_calls" not in wire[-1]:
        wire[-1]["content"] += f"\n\n{text}"
    else:
        wire.append({"role": role, "content": text})


def _add_answer(wire: list[WireMessage], message: Message, results: dict[str, deque[str]]) -> None:
    text = _text(message.content)
    calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
    if text:
        _add_text(wire, "assistant", text)
    if not calls:
        return
    if not (wire and wire[-1]["role"] == "assistant" and "tool_calls" not in wire[-1]):
        wire.append({"role": "assistant", "content": None})
    ids = _unique_ids(calls)
    wire[-1]["tool_calls"] = [_wire_call(call, call_id) for call, call_id in zip(calls, ids, strict=True)]
    for call, call_id in zip(calls, ids, strict=True):
        given = results[call.id]
        content = given.popleft() if given else _NO_RESULT
        wire.append({"role": "tool", "tool_call_id": call_id, "content": content})


def _wire_call(call: ToolCallBlock, call_id: str) -> WireMessage:
    name = _NOT_IN_A_NAME.sub("_", call.name)[:_NAME_LENGTH] or "unknown"
    function = {"name": name, "arguments": _arguments(call.arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _unique_ids(calls: Sequence[ToolCallBlock]) -> list[str]:
    ids: list[str] = []
    for call in calls:
        base = call_id = _mend(call.id) or "call"
        count = 1
        while call_id in ids:
            count += 1
            call_id = f"{base}-{count}"
        ids.append(call_id)
    return ids


def _results_after(conversation: Sequence[Message], position: int) -> dict[str, deque[str]]:
    """The tool results between an answer and the next one, by the id of their call."""
    results: dict[str, deque[str]] = defaultdict(deque)
    for later in range(position + 1, len(conversation)):
        if conversation[later].role == "assistant":
            break
        for call_id, text in _results(conversation[later].content):
            results[call_id].append(text)
    return results


def _results(content: Iterable[object]) -> Iterator[tuple[str, str]]:
    for block in content:
        if isinstance(block, ToolResultBlock):
            yield block.tool_call_id, _text(block.content, "\n")
        elif member(block, "type") == "tool-result":
            # A result that holds something else than text was kept as it came.
            pieces = [str(member(part, "text") or "") for part in items(member(block, "content"))]
            yield str(member(block, "toolCallId") or ""), _mend("\n".join(filter(None, pieces)))


def _text(content: Iterable[object], between: str = "") -> str:
    return _mend(between.join(block.text for block in content if isinstance(block, TextBlock)))


def _arguments(text: str) -> str:
    """Return JSON text of an object: `text` itself when it is that, else an object that quotes it."""
    stripped = text.strip()
    if stripped in ("", "null"):
        return "{}"
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return json.dumps({"invalid_arguments": _mend(text)}, ensure_ascii=False)
    if _SURROGATE.search(text) or _SURROGATE_ESCAPE.search(text):
        # Mended as Python text, where an escaped pair is one character and half a pair is not.
        return _mend(json.dumps(value, ensure_ascii=False))
    return text


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _mend(text: str) -> str:
    """Replace each lone half of a surrogate pair by U+FFFD; a whole pair becomes its character."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
