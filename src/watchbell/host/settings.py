"""What can be set, where a value comes from, and the model that the settings name.

In rising order: the defaults, the file `watchbell.toml` (in the home, or wherever `--config` says), the
environment, the command's options. An empty variable counts as unset.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from watchbell.errors import SettingsError
from watchbell.host.settings_file import read_config
from watchbell.models.base import ChatModel
from watchbell.models.openai.model import IDLE_TIMEOUT_SECONDS, MAX_RETRIES, OpenAIModel
from watchbell.models.openai.providers import DIALECTS, Dialect, check_base_url, find_provider, show_url
from watchbell.offline.model import OfflineModel
from watchbell.zones import ZoneTable

DEFAULT_HOME = Path("~/.watchbell")
"""Where sessions are kept when nothing says otherwise."""

CONFIG_NAME = "watchbell.toml"
"""The settings file in the home."""

OFFLINE = "offline"
"""The name of the model that needs no account."""

_PREFIX = "WATCHBELL_"
_MASK = "********"
_SECRETS = {"api_key"}
_CHOICES = {"dialect": DIALECTS, "compression": ("zstd", "none")}
_CLOSE = 0.75
_PLAIN_NAME = re.compile(r"[A-Za-z_-]{1,40}")
_SECRET_NAME = re.compile(r"key|token|secret|authorization|password|credential", re.IGNORECASE)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting. The file may give each of them, a variable `WATCHBELL_<NAME>` all but `extra`.

    Attributes:
        home: Where the sessions are; in the file, relative to the file's folder.
        model: Who answers: `offline`, or a model's name at its provider.
        base_url: Where the provider's OpenAI-compatible API is; `OPENAI_BASE_URL` says so too.
        api_key: Its key; `OPENAI_API_KEY` or `DEEPSEEK_API_KEY`, whichever the provider takes, say so too.
        provider: What session logs call the provider; its known name or host by default.
        dialect: How tool schemas are written for it: `full`, `strict` or `narrow`; by default what suits it.
        context_window: How many tokens a request and its answer may have together.
        idle_timeout_seconds: The longest silence before an answer counts as stalled.
        max_retries: How often a failed request is made again.
        extra: More members for each request to the model, such as `temperature`.
        system: The system prompt.
        time_zone: Your IANA time zone; this computer's by default.
        compression: How new session logs are stored: `zstd` or `none`.
        max_active: How many active reminders a session may have.
    """

    home: Path = DEFAULT_HOME
    model: Annotated[str, Meta(min_length=1)] = OFFLINE
    base_url: str | None = None
    api_key: str | None = None
    provider: Annotated[str, Meta(min_length=1)] | None = None
    dialect: Dialect | None = None
    context_window: Annotated[int, Meta(ge=1)] | None = None
    idle_timeout_seconds: Annotated[float, Meta(gt=0, le=86_400)] = IDLE_TIMEOUT_SECONDS
    max_retries: Annotated[int, Meta(ge=0, le=20)] = MAX_RETRIES
    extra: dict[str, Any] = {}  # msgspec copies it
    system: str | None = None
    time_zone: str | None = None
    compression: Literal["zstd", "none"] = "zstd"
    max_active: Annotated[int, Meta(ge=1)] = 1000

    def __repr__(self) -> str:
        shown = (f"{name}={_show(name, getattr(self, name))}" for name in _NAMES)
        return f"Settings({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What rich shows: no secrets."""
        return [(name, _show(name, getattr(self, name))) for name in _NAMES]


_NAMES = Settings.__struct_fields__
_TYPES = get_type_hints(Settings, include_extras=True)


class Effective(msgspec.Struct, frozen=True):
    """The settings as they apply, and where each one comes from.

    Attributes:
        settings: The values.
        origins: By name: `default`, the file's path, `$NAME` of a variable, or `--name` of an option.
    """

    settings: Settings
    origins: dict[str, str]

    def describe(self) -> list[tuple[str, str, str]]:
        """Return name, value and origin of every setting, secrets masked, unset ones as empty text."""
        return [(name, _show(name, getattr(self.settings, name)), self.origins[name]) for name in _NAMES]


def expand_user(path: Path) -> Path:
    """Return a path with a leading `~` or `~user` as the directory that it stands for.

    Raises:
        SettingsError: There is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise SettingsError(f"{path}: no home directory is known for that user") from None


def load_settings(
    home: Path | None = None,
    config: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Effective:
    """Find the effective settings.

    Args:
        home: What `--home` says; also where `watchbell.toml` is looked for.
        config: What `--config` says; a file that must exist.
        env: The environment variables.
        flags: What other options say, by the setting's name; None and missing ones say nothing.

    Raises:
        SettingsError: An unknown name, a value that cannot be used, or a file that cannot be read.
    """
    env, flags = env or {}, {"home": home, **(flags or {})}
    chosen = config or _path(env.get("WATCHBELL_CONFIG"))
    file = chosen or (_path(home or env.get("WATCHBELL_HOME")) or expand_user(DEFAULT_HOME)) / CONFIG_NAME
    table = read_config(file)
    if table is None and chosen is not None:
        raise SettingsError(f"there is no settings file {chosen}")
    found = _Found({}, dict.fromkeys(_NAMES, "default"))
    for name, value in (table or {}).items():
        found.put(name, value, str(file))
    if found.origins["home"] == str(file):
        found.values["home"] = file.parent / found.values["home"]
    place_in_file = _find_place(found)
    _add_environment(found, env)
    for name, value in flags.items():
        if value is not None:
            found.put(name, value, f"--{name.replace('_', '-')}")
    _add_key(found, env, str(file), place_in_file)
    found.values["home"] = (found.values.get("home") or expand_user(DEFAULT_HOME)).absolute()
    settings = Settings(**found.values)
    if found.origins["model"] == "default" and found.origins["base_url"].startswith("--"):
        raise SettingsError("--base-url needs --model: name the model to ask there")
    return Effective(settings, found.origins)


def build_model(settings: Settings) -> ChatModel:
    """Return the model that the settings name.

    Raises:
        SettingsError: It cannot be used as set, such as without a key that its provider wants.
    """
    if settings.model == OFFLINE:
        return OfflineModel()
    return OpenAIModel(
        settings.model,
        base_url=settings.base_url,
        api_key=settings.api_key,
        provider=settings.provider,
        dialect=settings.dialect,
        context_window=settings.context_window,
        idle_timeout_seconds=settings.idle_timeout_seconds,
        max_retries=settings.max_retries,
        extra=settings.extra,
        environment={},  # it was looked at already, in its place among the other sources
    )


class _Found(msgspec.Struct):
    """The values so far; a later one takes the place of an earlier one."""

    values: dict[str, Any]
    origins: dict[str, str]

    def put(self, name: str, value: object, origin: str, *, is_text: bool = False) -> None:
        """Set a value.

        Args:
            name: The setting.
            value: What was given for it.
            origin: Where.
            is_text: Whether numbers come as text.

        Raises:
            SettingsError: There is no such setting, or it cannot have that value.
        """
        if name not in _NAMES:
            close = difflib.get_close_matches(name, _NAMES, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(_NAMES)}"
            told = repr(name) if _PLAIN_NAME.fullmatch(name) else "a name"  # not what may be a key
            raise SettingsError(f"{origin}: {told} is no setting; {hint}")
        self.values[name] = _convert(name, value, origin, is_text=is_text)
        self.origins[name] = origin


def _add_environment(found: _Found, env: Mapping[str, str]) -> None:
    # The variable that other programs share ranks with the environment, below our own.
    if url := env.get("OPENAI_BASE_URL"):
        found.put("base_url", url, "$OPENAI_BASE_URL", is_text=True)
    known = [name for name in _NAMES if name != "extra"]
    for variable, text in env.items():
        name = variable.removeprefix(_PREFIX).lower()
        if not variable.startswith(_PREFIX) or not text:
            continue
        if name == "extra":
            raise SettingsError(f"${variable}: extra is a table, which only the settings file can hold")
        if name in known:
            found.put(name, text, f"${variable}", is_text=True)
        elif close := difflib.get_close_matches(name, known, 1, _CLOSE):
            # Other programs may have variables of that prefix, so only what looks like a slip is one.
            raise SettingsError(f"${variable} is no setting; did you mean {_PREFIX}{close[0].upper()}?")


def _find_place(found: _Found) -> tuple[str, str | None, int | None] | None:
    """Return scheme, host and port of who serves the model, as found so far; None when nobody is named."""
    model, base_url = found.values.get("model", OFFLINE), found.values.get("base_url")
    if model == OFFLINE and base_url is None:
        return None
    parts = urlsplit(find_provider(model, base_url).base_url)
    return parts.scheme, parts.hostname, parts.port


def _add_key(found: _Found, env: Mapping[str, str], file: str, place_in_file: object) -> None:
    """Take the key from the variable of whoever serves the model, unless one of our own sources names it.

    The file's key is for whom the file names; it goes nowhere else.
    """
    model = found.values.get("model", OFFLINE)
    if model == OFFLINE or found.origins["api_key"] not in ("default", file):
        return
    variable = find_provider(model, found.values.get("base_url")).key_variable
    if key := env.get(variable):
        found.put("api_key", key, f"${variable}", is_text=True)
    elif found.origins["api_key"] == file and place_in_file not in (None, _find_place(found)):
        del found.values["api_key"]
        found.origins["api_key"] = "default"


def _convert(name: str, value: object, origin: str, *, is_text: bool) -> Any:
    if name in _CHOICES and value not in _CHOICES[name]:
        raise SettingsError(f"{origin}: {name}: it is one of {', '.join(_CHOICES[name])}")
    try:
        plain = str(value) if isinstance(value, Path) else value
        converted = msgspec.convert(plain, _TYPES[name], strict=not is_text, dec_hook=_decode_path)
        if name == "base_url" and converted is not None:
            check_base_url(converted)
    except (msgspec.ValidationError, SettingsError) as error:
        # Not chained and without the value: it may be a secret in the wrong place.
        reason = str(error)
        raise SettingsError(f"{origin}: {name}: {reason[:1].lower()}{reason[1:]}") from None
    if name == "time_zone" and converted is not None and ZoneTable().find(converted) is None:
        told = repr(converted) if origin.startswith("--") else "time_zone: it"  # elsewhere it may be a secret
        raise SettingsError(f"{origin}: {told} is no IANA time zone such as Europe/Berlin, nor UTC")
    return converted


def _decode_path(kind: type, value: object) -> Path:
    if kind is Path and isinstance(value, str) and value:
        return expand_user(Path(value))
    raise msgspec.ValidationError("Expected a path")


def _path(value: str | Path | None) -> Path | None:
    return expand_user(Path(value)) if value else None


def _show(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in _SECRETS:
        return _MASK
    if name == "base_url":
        return show_url(str(value))
    return msgspec.json.encode(_mask(value)).decode() if name == "extra" else str(value)


def _mask(value: object, name: str = "") -> object:
    """Return a value with each text masked that stands, at any depth, under a name of secrets."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        secret = name if _SECRET_NAME.search(name) else ""
        return {key: _mask(item, secret or key) for key, item in table.items()}
    if isinstance(value, list):
        return [_mask(item, name) for item in cast("list[object]", value)]
    return _MASK if isinstance(value, str) and _SECRET_NAME.search(name) else value
