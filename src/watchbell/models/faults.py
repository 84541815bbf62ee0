"""What can go wrong with a model's answer: the one place where the SDK's exceptions become ours.

Each fault is a line that says what to do, and whether asking again can help. Texts of the provider are quoted
in part, cleaned of anything that could be a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

from watchbell.errors import ModelError
from watchbell.models.openai.providers import Provider, show_url

__all__ = ["LONGEST_WAIT_MS", "Asked", "no_api", "stalled", "translate", "worth_retrying"]

LONGEST_WAIT_MS = 60_000
"""A provider that asks for more patience than this gets no second request."""

_RETRIED = {"CONNECTION", "CUT_STREAM", "IDLE_TIMEOUT", "RATE_LIMITED"}
_PASSING_STATUSES = {408, 409, 425}
_QUOTE_LENGTH = 300
_LIKE_A_KEY = re.compile(r"\b(?:sk|pk|key)-[\w*.•…-]{4,}|(?i:bearer)\s+\S+")
_SHORT_KEY = 8
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size)|maximum context|too many tokens|prompt is too long"
    r"|exceeds? the (?:model'?s )?max",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,200}?(?:not (?:found|exist)|does not exist|unknown)|(?:unknown|no such) model",
    re.IGNORECASE | re.DOTALL,
)
_NO_MONEY = re.compile(r"insufficient[ _](?:quota|balance|credits?)|billing|payment", re.IGNORECASE)
_BAD_TOOL = re.compile(r"schema|function|\btools?\b", re.IGNORECASE)


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
    return error.code in _RETRIED or (error.status is not None and _is_passing(error.status))


def stalled(asked: Asked, seconds: float) -> ModelError:
    """Return the error of an answer that did not go on for `seconds`."""
    return ModelError(
        f"{asked.provider.name} sent nothing for {seconds:g} seconds; try again, or raise "
        "idle_timeout_seconds for a model that thinks long",
        code="IDLE_TIMEOUT",
    )


def no_api(asked: Asked) -> ModelError:
    """Return the error of an answer from something else than a model's API, such as a web page."""
    return ModelError(
        f"{asked.provider.name} sent an answer that is not the JSON of a chat completion; check that "
        f"{show_url(asked.provider.base_url)} is an OpenAI-compatible API that streams",
        code="INVALID_STREAM",
    )


def translate(error: Exception, asked: Asked, *, now_ms: int) -> ModelError:
    """Return the ModelError that stands for what the SDK, or what it uses, raised.

    Args:
        error: The foreign exception.
        asked: What was asked of whom.
        now_ms: Epoch milliseconds now, for a `Retry-After` that is a date.
    """
    status = getattr(error, "status_code", None)
    body = _mapping(getattr(error, "body", None))
    if status is None and body:
        return _in_stream(body, asked)
    if status is not None:
        response = getattr(error, "response", None)
        headers = cast("Mapping[str, str]", getattr(response, "headers", {}))
        wait_ms = _retry_after_ms(headers, now_ms)
        fault = _refused(status, body, _quote(error, asked), asked, wait_ms)
        fault.status = status
        fault.retry_after_ms = wait_ms
        fault.request_id = headers.get("x-request-id")
        return fault
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APITimeoutError" in names and type(error.__cause__).__name__ not in ("ConnectTimeout", "PoolTimeout"):
        return stalled(asked, asked.idle_timeout_seconds)
    if "APIConnectionError" in names:
        return _unreachable(error, asked)
    if isinstance(error, ValueError):
        return no_api(asked)
    return ModelError(f"the request failed: {type(error).__name__}")


def _unreachable(error: Exception, asked: Asked) -> ModelError:
    name, url = asked.provider.name, show_url(asked.provider.base_url)
    cause = type(error.__cause__).__name__
    if cause in ("RemoteProtocolError", "ReadError", "EndOfStream"):
        return ModelError(
            f"{name} closed the connection before the answer's end; ask again", code="CUT_STREAM"
        )
    return ModelError(
        f"{url} cannot be reached ({cause}); check the network, the base URL and that the server runs",
        code="CONNECTION",
    )


def _refused(
    status: int, body: Mapping[str, Any], quote: str, asked: Asked, wait_ms: int | None = None
) -> ModelError:
    """An HTTP error status."""
    span = f"{-(-wait_ms // 60_000)} minutes" if wait_ms and wait_ms > LONGEST_WAIT_MS else ""
    name, known = asked.provider.name, f"{body.get('code')} {body.get('type')} {quote}"
    if status == 413 or (status < 500 and _OVERFLOW.search(known)):
        return _overflow(status)
    if status in (400, 404, 422) and (body.get("code") == "model_not_found" or _NO_MODEL.search(known)):
        return _no_model(asked)
    if status == 402 or (status == 429 and _NO_MONEY.search(known)):
        return ModelError(f"{name} wants to be paid first ({status}); check the account", code="QUOTA")
    if _is_passing(status):
        return ModelError(
            f"{name} is in trouble ({status}){quote}; try again {f'in {span}' if span else 'later'}"
        )
    match status:
        case 401:
            return _bad_key(asked)
        case 403:
            return ModelError(
                f"{name} forbids this (403){quote}; check the account", code="PERMISSION_DENIED"
            )
        case 404:
            url = show_url(asked.provider.base_url)
            message = f"there are no chat completions at {url} (404); most base URLs end in /v1"
            return ModelError(message, code="NOT_FOUND")
        case 429:
            return ModelError(
                f"{name} limits how often it is asked (429); wait {span or 'a little'}", code="RATE_LIMITED"
            )
        case _:
            hint = '; if a tool is at fault, try dialect = "full"' if _BAD_TOOL.search(quote) else ""
            return ModelError(f"{name} refused the request ({status}){quote}{hint}", code="INVALID_REQUEST")


def _in_stream(body: Mapping[str, Any], asked: Asked) -> ModelError:
    """An error that came in the middle of a stream, in place of a chunk."""
    code = body.get("code")
    text = body.get("message")
    quote = _quoted(text, asked) if isinstance(text, str) else ""
    number = str(code) if isinstance(code, (int, str)) else ""
    if number.isdigit() and 400 <= int(number) < 600:
        fault = _refused(int(number), body, quote, asked)
        fault.status = int(number)
        return fault
    if _OVERFLOW.search(f"{code} {quote}"):
        return _overflow(None)
    return ModelError(f"{asked.provider.name} broke the answer off{quote}; ask again")


def _is_passing(status: int) -> bool:
    return status >= 500 or status in _PASSING_STATUSES


def _bad_key(asked: Asked) -> ModelError:
    # The provider's own text is not quoted: it tends to hold parts of the key.
    told = (
        "wants an API key (401); set" if asked.api_key is None else "does not accept the API key (401); check"
    )
    return ModelError(
        f"{asked.provider.name} {told} {asked.provider.key_variable} or api_key in watchbell.toml",
        code="AUTHENTICATION",
    )


def _no_model(asked: Asked) -> ModelError:
    return ModelError(
        f"{asked.provider.name} has no model named {asked.model!r}; check --model", code="MODEL_NOT_FOUND"
    )


def _overflow(status: int | None) -> ModelError:
    told = "" if status is None else f" ({status})"
    return ModelError(
        f"the conversation has become too long for the model{told}; go on in a new session, or fork this one "
        "from an earlier turn",
        code="CONTEXT_OVERFLOW",
    )


def _quote(error: Exception, asked: Asked) -> str:
    body = _mapping(getattr(error, "body", None))
    text = body.get("message") or body.get("detail") or body.get("error")
    return _quoted(text, asked) if isinstance(text, str) else ""


def _quoted(text: str, asked: Asked) -> str:
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


def _mapping(value: Any) -> Mapping[str, Any]:
    """The error object of a body; some servers wrap it, some do not."""
    if not isinstance(value, dict):
        return {}
    body = cast("dict[str, Any]", value)
    inner = body.get("error")
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else body


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
