"""What can go wrong with a model's answer: the one place where the SDK's exceptions become ours.

Each fault is a line that says what to do, and whether asking again can help. Texts of the provider are quoted
in part, cleaned of anything that could be a key.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from email.utils import parsedate_to_datetime
from typing import TypeAlias, cast

import msgspec

from watchbell.errors import ModelError
from watchbell.models.openai.providers import Provider, show_url

LONGEST_WAIT_MS = 60_000
"""A provider that asks for more patience than this gets no second request."""

_Body: TypeAlias = Mapping[str, object]

_RETRIED = {"CONNECTION", "CUT_STREAM", "IDLE_TIMEOUT", "RATE_LIMITED"}
_TROUBLE = {408, 409, 425, *range(500, 1000)}
_QUOTE_LENGTH = 300
_LIKE_A_KEY = re.compile(r"\b(?:sk|pk|key)-[\w*.•…-]{4,}|(?i:bearer)\s+\S+")
_SHORT_KEY = 8
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|too many tokens|prompt is too long"
    r"|exceeds? the (?:model'?s )?max",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,200}?(?:not (?:found|exist)|does not exist|unknown)|(?:unknown|no such) model"
    r"|^model_not_found ",
    re.IGNORECASE | re.DOTALL,
)
_NO_MONEY = re.compile(r"insufficient[ _](?:quota|balance|credits?)|billing|payment", re.IGNORECASE)
_BAD_TOOL = re.compile(r"schema|function|\btools?\b", re.IGNORECASE)

_TEXTS = {
    "AUTHENTICATION": "{name} {key_told} {key_variable} or api_key in watchbell.toml",
    "CONNECTION": "{url} cannot be reached ({cause}); check the network, the base URL and that the server "
    "runs",
    "CONTEXT_OVERFLOW": "the conversation has become too long for the model{status_told}; go on in a new "
    "session, or fork this one from an earlier turn",
    "CUT_STREAM": "{name} closed the connection before the answer's end; ask again",
    "IDLE_TIMEOUT": "{name} sent nothing for {seconds:g} seconds; try again, or raise idle_timeout_seconds "
    "for a model that thinks long",
    "INVALID_REQUEST": "{name} refused the request ({status}){quote}{hint}",
    "INVALID_STREAM": "{name} sent an answer that is not the JSON of a chat completion; check that {url} "
    "is an OpenAI-compatible API that streams",
    "MODEL_NOT_FOUND": "{name} has no model named {model!r}; check --model",
    "NOT_FOUND": "there are no chat completions at {url} (404); most base URLs end in /v1",
    "PERMISSION_DENIED": "{name} forbids this (403){quote}; check the account",
    "PROVIDER_ERROR": "{name} is in trouble ({status}){quote}; try again {later}",
    "QUOTA": "{name} wants to be paid first ({status}); check the account",
    "RATE_LIMITED": "{name} limits how often it is asked (429); wait {span}",
}
"""What each code tells a person."""

_REFUSALS: tuple[tuple[Container[int], re.Pattern[str] | None, str], ...] = (
    ({413}, None, "CONTEXT_OVERFLOW"),
    (range(500), _OVERFLOW, "CONTEXT_OVERFLOW"),
    ({400, 404, 422}, _NO_MODEL, "MODEL_NOT_FOUND"),
    ({402}, None, "QUOTA"),
    ({429}, _NO_MONEY, "QUOTA"),
    (_TROUBLE, None, "PROVIDER_ERROR"),
    ({401}, None, "AUTHENTICATION"),
    ({403}, None, "PERMISSION_DENIED"),
    ({404}, None, "NOT_FOUND"),
    ({429}, None, "RATE_LIMITED"),
)
"""The code of a refusal: that of the first line with its status and, if any, a pattern that its body fits."""


class Asked(msgspec.Struct, frozen=True):
    """What was asked of whom, as far as an error tells of it."""

    model: str
    provider: Provider
    api_key: str | None
    idle_timeout_seconds: float

    def __repr__(self) -> str:
        return f"Asked({self.model!r}, {self.provider.name!r})"  # a traceback may show it; not the key


def worth_retrying(error: ModelError) -> bool:
    """Whether the same request may well succeed a moment later."""
    return error.code in _RETRIED or error.status in _TROUBLE


def stalled(asked: Asked, seconds: float) -> ModelError:
    """Return the error of an answer that did not go on for `seconds`."""
    return _fault("IDLE_TIMEOUT", asked, seconds=seconds)


def no_api(asked: Asked) -> ModelError:
    """Return the error of an answer from something else than a model's API, such as a web page."""
    return _fault("INVALID_STREAM", asked)


def translate(error: Exception, asked: Asked, *, now_ms: int) -> ModelError:
    """Return the ModelError that stands for what the SDK, or what it uses, raised.

    Args:
        error: The foreign exception.
        asked: What was asked of whom.
        now_ms: Epoch milliseconds now, for a `Retry-After` that is a date.
    """
    status = cast("int | None", getattr(error, "status_code", None))
    body = _body(getattr(error, "body", None))
    if status is None and body:
        return _in_stream(body, asked)
    if status is not None:
        headers = cast("Mapping[str, str]", getattr(getattr(error, "response", None), "headers", {}))
        text = body.get("message") or body.get("detail") or body.get("error")
        fault = _refused(status, body, _quote(text, asked), asked, _retry_after_ms(headers, now_ms))
        fault.request_id = headers.get("x-request-id")
        return fault
    names = {kind.__name__ for kind in type(error).__mro__}
    cause = type(error.__cause__).__name__
    if "APITimeoutError" in names and cause not in ("ConnectTimeout", "PoolTimeout"):
        return stalled(asked, asked.idle_timeout_seconds)
    if "APIConnectionError" in names:
        is_cut = cause in ("RemoteProtocolError", "ReadError", "EndOfStream")
        return _fault("CUT_STREAM" if is_cut else "CONNECTION", asked, cause=cause)
    if isinstance(error, ValueError):
        return no_api(asked)
    return ModelError(f"the request failed: {type(error).__name__}")


def _fault(code: str, asked: Asked, **told: object) -> ModelError:
    text = _TEXTS[code]
    url = show_url(asked.provider.base_url)
    return ModelError(text.format(name=asked.provider.name, model=asked.model, url=url, **told), code=code)


def _refused(status: int, body: _Body, quote: str, asked: Asked, wait_ms: int | None = None) -> ModelError:
    """Return the error of an HTTP status."""
    said = f"{body.get('code')} {body.get('type')} {quote}"
    codes = (
        code
        for statuses, pattern, code in _REFUSALS
        if status in statuses and (pattern is None or pattern.search(said))
    )
    span = f"{-(-wait_ms // 60_000)} minutes" if wait_ms and wait_ms > LONGEST_WAIT_MS else ""
    fault = _fault(
        next(codes, "INVALID_REQUEST"),
        asked,
        status=status,
        status_told=f" ({status})",
        quote=quote,
        hint='; if a tool is at fault, try dialect = "full"' if _BAD_TOOL.search(quote) else "",
        span=span or "a little",
        later=f"in {span}" if span else "later",
        # The provider's own text is not quoted here: it tends to hold parts of the key.
        key_told="wants an API key (401); set"
        if asked.api_key is None
        else "does not accept the API key (401); check",
        key_variable=asked.provider.key_variable,
    )
    fault.status, fault.retry_after_ms = status, wait_ms
    return fault


def _in_stream(body: _Body, asked: Asked) -> ModelError:
    """Return the error that came in the middle of a stream, in place of a chunk."""
    code, quote = body.get("code"), _quote(body.get("message"), asked)
    number = str(code) if isinstance(code, (int, str)) else ""
    if number.isdigit() and 400 <= int(number) < 600:
        return _refused(int(number), body, quote, asked)
    if _OVERFLOW.search(f"{code} {quote}"):
        return _fault("CONTEXT_OVERFLOW", asked, status_told="")
    return ModelError(f"{asked.provider.name} broke the answer off{quote}; ask again")


def _quote(text: object, asked: Asked) -> str:
    """Return the beginning of a provider's text on one line, without what may be a key."""
    if not isinstance(text, str):
        return ""
    clean = _LIKE_A_KEY.sub("[key]", _without_key(text, asked.api_key))
    line = " ".join(clean.split())
    if len(line) > _QUOTE_LENGTH:
        line = f"{line[:_QUOTE_LENGTH]}…"
    return f": {line}" if line else ""


def _without_key(text: str, key: str | None) -> str:
    if not key:
        return text
    if len(key) >= _SHORT_KEY:
        return text.replace(key, "[key]")
    return re.sub(rf"(?<!\w){re.escape(key)}(?!\w)", "[key]", text)


def _body(value: object) -> _Body:
    """Return the error object of a body; some servers wrap it, some do not."""
    if not isinstance(value, dict):
        return {}
    body = cast("_Body", value)
    inner = body.get("error")
    return cast("_Body", inner) if isinstance(inner, dict) else body


def _retry_after_ms(headers: Mapping[str, str], now_ms: int) -> int | None:
    """How long to wait (RFC 9110, section 10.2.3: seconds or a date), or the same in milliseconds."""
    exact, text = headers.get("retry-after-ms", ""), headers.get("retry-after", "").strip()
    if exact.isdecimal():
        return int(exact)
    try:
        return max(0, round(float(text) * 1000))
    except (ValueError, OverflowError):
        pass
    try:
        # Counted by the server's own clock when it says how that stands.
        base_ms = parsedate_to_datetime(headers["date"]).timestamp() * 1000 if "date" in headers else now_ms
        return max(0, round(parsedate_to_datetime(text).timestamp() * 1000 - base_ms))
    except (ValueError, TypeError, OverflowError):
        return None
