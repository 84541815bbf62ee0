"""Any OpenAI-compatible model: the official SDK's streaming Chat Completions as a `ChatModel`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, Any

from watchbell.backoff import pause_seconds
from watchbell.clock import SystemClock
from watchbell.errors import ModelError, SettingsError
from watchbell.models.faults import LONGEST_WAIT_MS, Asked, no_api, stalled, translate, worth_retrying
from watchbell.models.openai._deltas import DeltaReader
from watchbell.models.openai._dialects import project_tool
from watchbell.models.openai._wire import wire_messages
from watchbell.models.openai.providers import DIALECTS, OPENAI, Dialect, Provider, find_provider, show_url

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream, Omit
    from openai.types.chat import ChatCompletionChunk

    from watchbell.clock import Clock
    from watchbell.log.messages import Chunk
    from watchbell.models.base import ModelRequest

IDLE_TIMEOUT_SECONDS = 300.0
"""Default for the longest silence of a server; a model may think for minutes first."""

MAX_RETRIES = 3
"""Default for how often a request is made again."""

_CONNECT_SECONDS = 10.0
_AFTER_FINISH_SECONDS = 5.0
"""How long the token counts are waited for once an answer is whole."""
_KEEP_ALIVE_FACTOR = 10
"""How much longer than the idle timeout a server may keep the line alive without saying anything."""
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0
_RESERVED = ("model", "messages", "stream", "stream_options", "tools", "n")
"""Members of a request that are Watchbell's own: `extra` cannot have them."""

_logger = logging.getLogger("watchbell.models")


class OpenAIModel:
    """A `ChatModel` behind an OpenAI-compatible API.

    The API key is kept out of everything that is shown or stored: errors, logs, `repr` and sessions. A
    request that fails before its answer has begun is made again where that can help: after 429 (as late as
    the provider asks for, up to a minute), 5xx, a failed connection or a silence.

    Making one sends nothing yet.

    Args:
        model: Its name at the provider.
        base_url: Where the API is, such as `http://localhost:8000/v1`; by default `OPENAI_BASE_URL`, else
            the known one of the model (DeepSeek's for `deepseek-...`, OpenAI's for any other).
        api_key: By default the provider's own variable: `DEEPSEEK_API_KEY` at DeepSeek, `GEMINI_API_KEY`
            at Gemini, `OPENAI_API_KEY` at OpenAI and at servers of your own.
        provider: What session logs call the provider; by default its known name, else the host.
        dialect: How tool schemas are written; by default what suits the provider.
        context_window: Tokens of a request and its answer together, when known.
        idle_timeout_seconds: The longest silence before an answer counts as stalled.
        max_retries: How often a request is made again.
        extra: More members for each request's JSON, such as `{"temperature": 0.2}`; not those that are
            Watchbell's own, such as `messages`.
        environment: Where the defaults are looked up.
        clock: Wall time, for dates in answers.
        sleep: Waits some seconds between requests.
        jitter: A number from 0 to 1, anew for each wait.

    Attributes:
        provider: Who serves the model.
        model: The model's name at its provider.
        context_window: Tokens of a request and its answer together, None when unknown.
        dialect: How tool schemas are written.

    Raises:
        SettingsError: The `openai` package or a needed key is missing, or a value cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str | None = None,
        dialect: Dialect | None = None,
        context_window: int | None = None,
        idle_timeout_seconds: float = IDLE_TIMEOUT_SECONDS,
        max_retries: int = MAX_RETRIES,
        extra: Mapping[str, object] | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not model.strip():
            raise SettingsError("name a model, such as gpt-4.1-mini")
        if dialect is not None and dialect not in DIALECTS:
            raise SettingsError(f"dialect is one of {', '.join(DIALECTS)}, not {dialect!r}")
        if not idle_timeout_seconds > 0 or max_retries < 0:
            raise SettingsError("idle_timeout_seconds must be above 0 and max_retries not below")
        source = find_provider(model, base_url or environment.get("OPENAI_BASE_URL") or None)
        key = _check_key(api_key or environment.get(source.key_variable), model, source)
        self._asked = Asked(model, source, key, idle_timeout_seconds)
        self.provider = provider or source.name
        self.model = model
        self.context_window = context_window
        self.dialect: Dialect = dialect or source.dialect
        self._max_retries = max_retries
        self._extra = _check_extra(extra or {})
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._jitter = jitter
        self._client, self._headers = _open_client(self._asked)

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r}, base_url={show_url(self._asked.provider.base_url)!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer `request`, as `ChatModel.stream` says."""
        for failures in count(1):
            has_begun = False
            try:
                async with aclosing(self._attempt(request)) as chunks:
                    async for chunk in chunks:
                        has_begun = True
                        yield chunk
                return
            except ModelError as error:
                wait_seconds = None if has_begun else self._wait_seconds(failures, error)
                if wait_seconds is None:
                    raise
                told = (error, failures + 1, self._max_retries + 1, wait_seconds)
                _logger.warning("%s; request %d of %d follows in %.1f s", *told)
            await self._sleep(wait_seconds)

    def _wait_seconds(self, failures: int, error: ModelError) -> float | None:
        """Return how long to wait before the request is made again; None when it is not to be."""
        if failures > self._max_retries or not worth_retrying(error):
            return None
        # Later than asked for or in turn, and not all at the same instant.
        pause = pause_seconds(failures, first=_FIRST_PAUSE_SECONDS, longest=_LONGEST_PAUSE_SECONDS)
        pause *= 1 + self._jitter()
        if error.retry_after_ms is None:
            return pause
        if error.retry_after_ms > LONGEST_WAIT_MS:
            return None
        return error.retry_after_ms / 1000 + min(pause, 1) * self._jitter()

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        reader = DeltaReader()
        stream = await self._ask(request)
        try:
            while (chunks := await self._receive(stream, reader)) is not None:
                for chunk in chunks:
                    yield chunk
        finally:
            await stream.close()
        if not reader.has_read and not _is_event_stream(stream):
            raise no_api(self._asked)
        for chunk in reader.end():
            yield chunk

    async def _ask(self, request: ModelRequest) -> AsyncStream[ChatCompletionChunk]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": wire_messages(request.system, request.messages),
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [project_tool(spec, self.dialect) for spec in request.tools]
        try:
            return await self._client.chat.completions.create(
                **body, stream=True, extra_body=self._extra or None, extra_headers=self._headers
            )
        except Exception as error:  # noqa: BLE001 - whatever the SDK and what it uses may raise
            # Not chained: the SDK's exceptions quote the provider, which may quote the key.
            raise self._fault(error) from None

    async def _receive(
        self, stream: AsyncStream[ChatCompletionChunk], reader: DeltaReader
    ) -> list[Chunk] | None:
        """Wait for what the next streamed objects add to the answer; None at the end.

        One that adds nothing keeps the line alive, as a comment does.
        """
        is_whole = reader.finish_reason is not None
        idle_seconds = self._asked.idle_timeout_seconds
        limit = min(_AFTER_FINISH_SECONDS, idle_seconds) if is_whole else idle_seconds * _KEEP_ALIVE_FACTOR
        try:
            async with asyncio.timeout(limit):
                while True:
                    chunks = list(reader.read(_decode(await anext(stream))))
                    if chunks or (reader.finish_reason is not None and not is_whole):
                        return chunks
        except StopAsyncIteration:
            return None
        except Exception as error:  # noqa: BLE001 - whatever the SDK and what it uses may raise
            if is_whole:
                return None  # only the token counts could have followed
            if isinstance(error, TimeoutError):
                raise stalled(self._asked, limit) from None
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> ModelError:
        return translate(error, self._asked, now_ms=self._clock.now_ms())


def _decode(chunk: ChatCompletionChunk) -> object:
    return chunk.to_dict(warnings=False) if hasattr(chunk, "to_dict") else {}


def _is_event_stream(stream: AsyncStream[ChatCompletionChunk]) -> bool:
    return "event-stream" in stream.response.headers.get("content-type", "").lower()


def _check_extra(extra: Mapping[str, object]) -> dict[str, object]:
    for name in _RESERVED:
        if name in extra:
            raise SettingsError(f"extra: {name!r} is Watchbell's own member of a request; leave it out")
    for name, value in extra.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            # Not chained and without the value: it may be a secret.
            raise SettingsError(f"extra: {name!r} holds something that JSON does not have") from None
    return dict(extra)


def _check_key(key: str | None, model: str, provider: Provider) -> str | None:
    stripped = (key or "").strip()
    if not stripped and provider.needs_key:
        raise SettingsError(
            f"{model} at {provider.name} needs an API key: set {provider.key_variable}, or api_key in "
            "watchbell.toml"
        )
    if not stripped:
        return None
    if not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise SettingsError("the API key has characters that no key has; copy it again")
    return stripped


def _open_client(asked: Asked) -> tuple[AsyncOpenAI, dict[str, str | Omit]]:
    """Return the SDK's client and the headers of each request."""
    try:
        import openai
    except ImportError as error:
        raise SettingsError(
            f"the model {asked.model!r} needs the openai package: pip install 'watchbell[openai]'"
        ) from error
    idle = asked.idle_timeout_seconds
    try:
        client = openai.AsyncOpenAI(
            base_url=asked.provider.base_url,
            api_key=asked.api_key or "none",
            timeout=openai.Timeout(idle, connect=min(_CONNECT_SECONDS, idle)),
            max_retries=0,
        )
    except Exception as error:  # noqa: BLE001 - whatever the SDK and what it uses may raise
        # Not chained and without its text: that may quote a proxy's password.
        raise SettingsError(
            f"no connection can be made as the environment says ({type(error).__name__}); check HTTP_PROXY, "
            "HTTPS_PROXY and ALL_PROXY (SOCKS needs: pip install socksio), SSL_CERT_FILE and SSL_CERT_DIR"
        ) from None
    # No connection outlives its answer, so nothing is left to close and nothing belongs to an event loop.
    headers: dict[str, str | Omit] = {"Connection": "close"}
    if asked.api_key is None:
        headers["Authorization"] = openai.omit
    if asked.provider.host != OPENAI.host:
        # The SDK takes these from the environment, and they are nobody else's business.
        headers |= {"OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}
    return client, headers
