"""A model server on a real socket: it plays what it is given, piece by piece, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Reply:
    """One response: each piece of the body is an HTTP chunk; then it ends, is cut or hangs."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    then: Literal["end", "cut", "hang"] = "end"


def event(data: Any) -> bytes:
    """A server-sent event with an object as its data, non-ASCII text raw."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    """An event with a piece of the answer."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return event(
        {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    )


def usage(**extra: Any) -> bytes:
    """The event with the token counts, which has no choices."""
    counts = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17, **extra}
    return event({"id": "c-1", "object": "chat.completion.chunk", "choices": [], "usage": counts})


def fragment(index: int | None, arguments: str | None = None, **function: Any) -> dict[str, Any]:
    """A piece of a tool call; `id` and `name` are told when given."""
    call: dict[str, Any] = {} if index is None else {"index": index}
    if "id" in function:
        call |= {"id": function.pop("id"), "type": "function"}
    if arguments is not None:
        function["arguments"] = arguments
    return {**call, "function": function}


def call(name: str, arguments: str, call_id: str = "call_1", finish: str = "tool_calls") -> Reply:
    """An answer with one tool call."""
    opening = delta(role="assistant", tool_calls=[fragment(0, "", id=call_id, name=name)])
    return Reply([opening, delta(tool_calls=[fragment(0, arguments)]), delta(finish), usage(), DONE])


def say(text: str) -> Reply:
    """An answer with text."""
    return Reply([delta(role="assistant", content=""), delta(content=text), delta("stop"), usage(), DONE])


def refuse(status: int, message: str = "no", *, headers: dict[str, str] | None = None, **error: Any) -> Reply:
    """An error status, with the usual JSON."""
    body = json.dumps({"error": {"message": message, **error}}).encode()
    return Reply([body], status, {"content-type": "application/json", **(headers or {})})


def bytewise(*parts: bytes) -> list[bytes]:
    """Cut a body into single bytes."""
    return [bytes([byte]) for byte in b"".join(parts)]


async def until(condition: Callable[[], bool]) -> None:
    """Let the program run on until something is so."""
    while not condition():  # noqa: ASYNC110 - it is the other side of a socket, which signals nothing
        await asyncio.sleep(0)


Answer = Callable[[dict[str, Any]], Reply]


class ModelServer:
    """Answers the requests in order, or by a function of the request's JSON.

    Attributes:
        requests: The JSON of each request.
        headers: The headers of each request, their names in lower case.
        gone: How many clients went away while the server hung.
    """

    def __init__(self, replies: Iterable[Reply] | Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.gone = 0
        self._find = replies if callable(replies) else None
        self._rest = iter(()) if callable(replies) else iter(replies)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            assert head.startswith("POST /v1/chat/completions "), head
            self.requests.append(body)
            self.headers.append(headers)
            await self._play(self._find(body) if self._find else next(self._rest), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _play(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = {"content-type": "text/event-stream", **reply.headers, "transfer-encoding": "chunked"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Whatever\r\n{lines}\r\n".encode())
        for piece in reply.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        if reply.then == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif reply.then == "hang":
            await reader.read()
            self.gone += 1
