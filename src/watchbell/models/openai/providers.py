"""What is known of the hosts that serve models: where they are, which key they take, which tool schemas."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit, urlunsplit

import msgspec

from watchbell.errors import SettingsError

Dialect: TypeAlias = Literal["full", "strict", "narrow"]
"""How a tool's schema is written for a provider; `watchbell.models.dialects` says what each one holds."""

DIALECTS: tuple[str, ...] = get_args(Dialect)


class Provider(msgspec.Struct, frozen=True):
    """Who serves models at one host.

    Attributes:
        name: What session logs call it.
        base_url: Where its Chat Completions are, without `/chat/completions`.
        key_variable: The environment variable that its key is usually kept in.
        dialect: The tool schemas that suit it.
        needs_key: Whether it answers nobody without a key.
        is_known: Whether it stands in the table; any other host counts as a server of the user's own.
    """

    name: str
    base_url: str
    key_variable: str = "OPENAI_API_KEY"
    dialect: Dialect = "full"
    needs_key: bool = True
    is_known: bool = True

    @property
    def host(self) -> str:
        """The host of its base URL."""
        return urlsplit(self.base_url).hostname or ""


OPENAI = Provider("openai", "https://api.openai.com/v1", dialect="strict")
DEEPSEEK = Provider("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY")
_PROVIDERS = (
    OPENAI,
    # Its strict mode is a beta at a base URL of its own.
    DEEPSEEK,
    Provider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        dialect="narrow",
    ),
)


def find_provider(model: str, base_url: str | None) -> Provider:
    """Return who serves `model`: whoever is at `base_url`, else who is known for models of that name.

    A host that is not in the table is a server of the user's own, named after the host.

    Raises:
        SettingsError: The base URL is none.
    """
    if base_url is None:
        return DEEPSEEK if model.startswith("deepseek-") else OPENAI
    parts = urlsplit(check_base_url(base_url))
    for provider in _PROVIDERS:
        if parts.hostname == provider.host:
            return msgspec.structs.replace(provider, base_url=base_url)
    name = parts.hostname or "local"
    if parts.port is not None:
        name = f"{name}:{parts.port}"
    return Provider(name, base_url, needs_key=False, is_known=False)


def check_base_url(text: str) -> str:
    """Return `text` when a model can be asked there.

    Raises:
        SettingsError: It is no `http` or `https` URL with a host; the message does not repeat it.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        raise SettingsError("the base URL must look like http://localhost:8000/v1")
    return text


def show_url(text: str) -> str:
    """Return a URL as it may be shown: without the user, password and query that may hold secrets."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "(not a URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
