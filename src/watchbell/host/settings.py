"""What can be set, where a value comes from, and the model that the settings name.

In rising order: the defaults, the file `watchbell.toml` (in the home, or wherever `--config` says), the
environment, the command's options. An empty variable counts as unset.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from watchbell.errors import SettingsError
from watchbell.models.offline import OfflineModel
from watchbell.models.providers import Dialect, check_base_url, find_provider, show_url
from watchbell.storage.config import read_config
from watchbell.zones import ZoneTable

if TYPE_CHECKING:
    from watchbell.models.base import ChatModel

__all__ = ["CONFIG_NAME", "DEFAULT_HOME", "OFFLINE", "Effective", "Settings", "build_model", "load_settings"]

DEFAULT_HOME = Path("~/.watchbell")
"""Where sessions are kept when nothing says otherwise."""

CONFIG_NAME = "watchbell.toml"
"""The settings file in the home."""

OFFLINE = "offline"
"""The name of the model that needs no account."""

_PREFIX = "WATCHBELL_"
_MASK = "********"
_SECRETS = {"api_key"}
_CLOSE = 0.75


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting; each can be given in the file, and all but `extra` as `WATCHBELL_<NAME>` and as an option.

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
    idle_timeout_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    max_retries: Annotated[int, Meta(ge=0, le=20)] = 3
    extra: dict[str, Any] = {}  # msgspec copies it
    system: str | None = None
    time_zone: str | None = None
    compression: Literal["zstd", "none"] = "zstd"
    max_active: Annotated[int, Meta(ge=1)] = 1000

    def __repr__(self) -> str:
        shown = (f"{name}={_MASK if name in _SECRETS else getattr(self, name)!r}" for name in _NAMES)
        return f"Settings({', '.join(shown)})"

    def __rich_repr__(self) -> Any:
        """What rich shows: no secrets."""
        return ((name, _MASK if name in _SECRETS else getattr(self, name)) for name in _NAMES)


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


def load_settings(
    home: Path | None = None,
    config: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
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
    env, given = env or {}, {name: value for name, value in (flags or {}).items() if value is not None}
    if home is not None:
        given["home"] = home
    values: dict[str, Any] = {}
    origins = dict.fromkeys(_NAMES, "default")
    path = config or _path(env.get("WATCHBELL_CONFIG"))
    found_home = _path(given.get("home")) or _path(env.get("WATCHBELL_HOME")) or DEFAULT_HOME.expanduser()
    file = path or found_home / CONFIG_NAME
    table = read_config(file)
    if table is None and path is not None:
        raise SettingsError(f"there is no settings file {path}")
    for source, texts in ((str(file), table or {}), ("env", _from_environment(env)), ("option", given)):
        for name, value in texts.items():
            _refuse_unknown(name, source)
            origin = {"env": f"${_PREFIX}{name.upper()}", "option": f"--{name.replace('_', '-')}"}.get(
                source, source
            )
            values[name] = _convert(name, value, origin, strict=source != "env")
            origins[name] = origin
    if origins["home"] == str(file):
        values["home"] = file.parent / values["home"]
    _add_conventional(values, origins, env, str(file))
    values["home"] = Path(values.get("home", DEFAULT_HOME)).expanduser()
    settings = Settings(**values)
    if settings.model == OFFLINE and origins["model"] == "default" and origins["base_url"].startswith("--"):
        raise SettingsError("--base-url needs --model: name the model to ask there")
    return Effective(settings, origins)


def build_model(settings: Settings) -> ChatModel:
    """Return the model that the settings name.

    Raises:
        SettingsError: It cannot be used as set, such as without a key that its provider wants.
    """
    if settings.model == OFFLINE:
        return OfflineModel()
    from watchbell.models.openai import OpenAIModel

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


def _from_environment(env: Mapping[str, str]) -> dict[str, str]:
    known = [name for name in _NAMES if name != "extra"]
    found: dict[str, str] = {}
    for variable, text in env.items():
        name = variable.removeprefix(_PREFIX).lower()
        if not variable.startswith(_PREFIX) or not text:
            continue
        if name in known:
            found[name] = text
        elif name not in ("config", "debug") and (close := difflib.get_close_matches(name, known, 1, _CLOSE)):
            # Other programs have variables of that prefix too, so only a likely slip is one.
            raise SettingsError(f"{variable} is no setting; did you mean {_PREFIX}{close[0].upper()}?")
    return found


def _add_conventional(
    values: dict[str, Any], origins: dict[str, str], env: Mapping[str, str], file: str
) -> None:
    """Add what is set by variables that other programs share; they rank with the environment, below our own."""
    below = ("default", file)
    if origins["base_url"] in below and (url := env.get("OPENAI_BASE_URL")):
        values["base_url"], origins["base_url"] = (
            _convert("base_url", url, "$OPENAI_BASE_URL", strict=False),
            "$OPENAI_BASE_URL",
        )
    model = values.get("model", OFFLINE)
    variable = find_provider(model, values.get("base_url")).key_variable
    if model != OFFLINE and origins["api_key"] in below and (key := env.get(variable)):
        values["api_key"], origins["api_key"] = key, f"${variable}"


def _refuse_unknown(name: str, source: str) -> None:
    if name in _NAMES:
        return
    close = difflib.get_close_matches(name, _NAMES, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(_NAMES)}"
    raise SettingsError(f"{source}: {name!r} is no setting; {hint}")


def _convert(name: str, value: Any, origin: str, *, strict: bool) -> Any:
    try:
        converted = msgspec.convert(_as_text(value), _TYPES[name], strict=strict, dec_hook=_decode_path)
        if name == "base_url" and converted is not None:
            check_base_url(converted)
    except (msgspec.ValidationError, SettingsError) as error:
        # Not chained and without the value: it may be a secret in the wrong place.
        raise SettingsError(f"{origin}: {name}: {str(error)[:1].lower()}{str(error)[1:]}") from None
    if name == "time_zone" and converted is not None and ZoneTable().find(converted) is None:
        raise SettingsError(f"{origin}: {converted!r} is no IANA time zone such as Europe/Berlin, nor UTC")
    return converted


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _decode_path(kind: type, value: Any) -> Any:
    if kind is Path and isinstance(value, str) and value:
        return Path(value).expanduser()
    raise msgspec.ValidationError("Expected a path")


def _path(value: Any) -> Path | None:
    return Path(value).expanduser() if value else None


def _show(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _SECRETS:
        return _MASK
    if name == "base_url":
        return show_url(value)
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else str(value)
