from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from watchbell.errors import SettingsError
from watchbell.host.settings import Effective, build_model, load_settings
from watchbell.models.openai.model import OpenAIModel
from watchbell.offline.model import OfflineModel

KEY = "sk-secret-0123456789"


def write(home: Path, text: str, name: str = "watchbell.toml") -> Path:
    file = home / name
    file.write_text(text, encoding="utf-8")
    return file


def origin(effective: Effective, name: str) -> tuple[Any, str]:
    return getattr(effective.settings, name), effective.origins[name]


def test_with_nothing_set_everything_is_a_default_and_the_model_is_offline(tmp_path: Path) -> None:
    effective = load_settings(home=tmp_path)
    assert origin(effective, "model") == ("offline", "default")
    assert {source for name, source in effective.origins.items() if name != "home"} == {"default"}
    assert isinstance(build_model(effective.settings), OfflineModel)


def test_the_file_is_below_the_environment_and_that_below_the_options(tmp_path: Path) -> None:
    file = write(tmp_path, 'model = "a"\nmax_active = 1\ncompression = "none"\n')
    env = {"WATCHBELL_MODEL": "b", "WATCHBELL_MAX_ACTIVE": "2", "WATCHBELL_HOME": str(tmp_path)}
    effective = load_settings(env=env, flags={"model": "c", "max_active": None})
    assert origin(effective, "model") == ("c", "--model")
    assert origin(effective, "max_active") == (2, "$WATCHBELL_MAX_ACTIVE")
    assert origin(effective, "compression") == ("none", str(file))
    assert origin(effective, "home") == (tmp_path, "$WATCHBELL_HOME")


def test_a_file_of_another_place_must_exist_and_its_home_is_relative_to_it(tmp_path: Path) -> None:
    file = write(tmp_path, 'home = "data"', "other.toml")
    assert load_settings(config=file).settings.home == tmp_path / "data"
    assert load_settings(env={"WATCHBELL_CONFIG": str(file)}).settings.home == tmp_path / "data"
    assert load_settings(home=tmp_path / "mine", config=file).settings.home == tmp_path / "mine"
    with pytest.raises(SettingsError, match=r"no settings file .*gone\.toml"):
        load_settings(config=tmp_path / "gone.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('modle = "x"', r"watchbell\.toml: 'modle' is no setting; did you mean 'model'\?"),
        ("zzz = 1", r"'zzz' is no setting; the settings are home, model,"),
        ("[openai]\nkey = 1", r"'openai' is no setting"),
        ('max_active = "many"', r"watchbell\.toml: max_active: expected `int`, got `str`"),
        ("max_active = 0", r"max_active: expected `int` >= 1"),
        ('dialect = "loose"', r"dialect: it is one of full, strict, narrow"),
        ("idle_timeout_seconds = -1", r"idle_timeout_seconds: expected `float` > 0"),
        ('base_url = "localhost:80"', r"base_url: the base URL must look like http://localhost:8000/v1"),
        ('time_zone = "Mars/Base"', r"watchbell\.toml: time_zone: it is no IANA time zone"),
        ("model = ", r"watchbell\.toml is not TOML"),
        ('model = ""', r"model: expected `str` of length >= 1"),
        ("extra = 3", r"extra: expected `object`, got `int`"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path, text)
    with pytest.raises(SettingsError, match=says):
        load_settings(home=tmp_path)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"WATCHBELL_MODLE": "x"}, r"\$WATCHBELL_MODLE is no setting; did you mean WATCHBELL_MODEL\?"),
        ({"WATCHBELL_MAX_RETRIES": "often"}, r"\$WATCHBELL_MAX_RETRIES: max_retries: expected `int`"),
        ({"OPENAI_BASE_URL": "nonsense"}, r"\$OPENAI_BASE_URL: base_url:"),
        ({"WATCHBELL_EXTRA": "{}"}, r"\$WATCHBELL_EXTRA: extra is a table, which only the settings file"),
        ({"WATCHBELL_HOME": "~nosuchuser/x"}, r"~nosuchuser/x: no home directory is known"),
        ({"WATCHBELL_CONFIG": "~nosuchuser/x"}, r"~nosuchuser/x: no home directory is known"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(tmp_path: Path, env: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings(home=tmp_path, env=env)


def test_variables_of_others_and_empty_ones_are_passed_over(tmp_path: Path) -> None:
    env = {"WATCHBELL_SAMPLES": "/x", "WATCHBELL_DEBUG": "1", "WATCHBELL_MODEL": "", "HOME": "/y"}
    assert load_settings(home=tmp_path, env=env).settings.model == "offline"


def test_unknown_options_are_refused_too(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean 'base_url'"):
        load_settings(home=tmp_path, flags={"base_uri": "x"})


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "watchbell.toml").mkdir()
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(home=tmp_path)


# --- keys and models -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "flags", "expected"),
    [
        ({"OPENAI_API_KEY": KEY}, {"model": "gpt-4.1"}, (KEY, "$OPENAI_API_KEY")),
        ({"OPENAI_API_KEY": KEY}, {"model": "deepseek-chat"}, (None, "default")),
        (
            {"OPENAI_API_KEY": "no", "DEEPSEEK_API_KEY": KEY},
            {"model": "deepseek-chat"},
            (KEY, "$DEEPSEEK_API_KEY"),
        ),
        ({"OPENAI_API_KEY": KEY}, {"model": "m", "base_url": "http://box/v1"}, (KEY, "$OPENAI_API_KEY")),
        (
            {"OPENAI_API_KEY": "no", "WATCHBELL_API_KEY": KEY},
            {"model": "gpt-4.1"},
            (KEY, "$WATCHBELL_API_KEY"),
        ),
        ({"OPENAI_API_KEY": KEY}, {}, (None, "default")),
    ],
)
def test_each_provider_gets_its_own_key(
    tmp_path: Path, env: dict[str, str], flags: dict[str, Any], expected: tuple[str | None, str]
) -> None:
    assert origin(load_settings(home=tmp_path, env=env, flags=flags), "api_key") == expected


@pytest.mark.parametrize(
    ("text", "env", "flags", "is_sent"),
    [
        ('model = "deepseek-chat"', {}, {}, True),
        ('model = "deepseek-chat"', {}, {"model": "deepseek-reasoner"}, True),
        ('model = "deepseek-chat"', {}, {"model": "gpt-4.1"}, False),
        ('model = "deepseek-chat"', {"WATCHBELL_MODEL": "gpt-4.1"}, {}, False),
        ('model = "m"\nbase_url = "http://box/v1"', {"OPENAI_BASE_URL": "http://other/v1"}, {}, False),
        ('model = "m"\nbase_url = "http://box/v1"', {}, {"base_url": "http://box:81/v1"}, False),
        ('model = "m"\nbase_url = "http://box/v1"', {}, {"base_url": "http://box/v2"}, True),
        ('model = "m"\nbase_url = "http://box/v1"', {}, {"model": "deepseek-chat"}, True),
        ("", {}, {"model": "deepseek-chat"}, True),
    ],
)
def test_the_key_of_the_file_goes_only_to_whom_the_file_names(
    tmp_path: Path, text: str, env: dict[str, str], flags: dict[str, Any], is_sent: bool
) -> None:
    file = write(tmp_path, f'{text}\napi_key = "{KEY}"')
    expected = (KEY, str(file)) if is_sent else (None, "default")
    assert origin(load_settings(home=tmp_path, env=env, flags=flags), "api_key") == expected


def test_the_shared_base_url_ranks_with_the_environment(tmp_path: Path) -> None:
    write(tmp_path, 'base_url = "http://file/v1"')
    env = {"OPENAI_BASE_URL": "http://shared/v1"}
    assert origin(load_settings(home=tmp_path, env=env), "base_url") == (
        "http://shared/v1",
        "$OPENAI_BASE_URL",
    )
    env["WATCHBELL_BASE_URL"] = "http://ours/v1"
    assert origin(load_settings(home=tmp_path, env=env), "base_url")[0] == "http://ours/v1"


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    write(tmp_path, f'model = "m"\nbase_url = "http://me:hidden@box/v1?token=hidden"\napi_key = "{KEY}"')
    effective = load_settings(home=tmp_path)
    shown = {name: value for name, value, _ in effective.describe()}
    assert shown["api_key"] == "********"
    assert shown["base_url"] == "http://box/v1"
    assert KEY not in repr(effective)
    assert KEY not in str(list(effective.settings.__rich_repr__()))


def test_secrets_among_the_members_of_a_request_are_masked_at_any_depth(tmp_path: Path) -> None:
    write(
        tmp_path,
        f'[extra]\nmax_tokens = 9\nstop = ["x"]\nuser_token = "{KEY}"\n'
        f'[extra.tracing.headers]\nAuthorization = ["{KEY}"]\n[extra.secrets]\na = {{b = "{KEY}"}}\n',
    )
    effective = load_settings(home=tmp_path)
    shown = {name: value for name, value, _ in effective.describe()}["extra"]
    assert KEY not in shown + repr(effective)
    assert '"max_tokens":9,"stop":["x"],"user_token":"********"' in shown


@pytest.mark.parametrize(
    "text",
    [
        f"api_key = {KEY}",
        f'dialect = "{KEY}"',
        f'max_active = "{KEY}"',
        f'time_zone = "{KEY}"',
        f'"{KEY}" = 1',
    ],
)
def test_an_error_about_a_line_with_a_key_does_not_repeat_it(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    with pytest.raises(SettingsError) as raised:
        load_settings(home=tmp_path)
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None


def test_the_model_is_built_as_set(tmp_path: Path) -> None:
    write(
        tmp_path,
        'model = "qwen3"\nbase_url = "http://localhost:11434/v1"\ndialect = "narrow"\n'
        'context_window = 32768\nprovider = "ollama"\n[extra]\ntemperature = 0.2\n',
    )
    effective = load_settings(home=tmp_path)
    model = build_model(effective.settings)
    assert isinstance(model, OpenAIModel)
    assert (model.model, model.provider, model.dialect, model.context_window) == (
        "qwen3",
        "ollama",
        "narrow",
        32768,
    )
    assert ("extra", '{"temperature":0.2}', str(tmp_path / "watchbell.toml")) in effective.describe()


def test_a_model_without_the_key_that_it_needs_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "not to be looked at")
    settings = load_settings(home=tmp_path, env={}, flags={"model": "deepseek-chat"}).settings
    with pytest.raises(SettingsError, match="DEEPSEEK_API_KEY"):
        build_model(settings)


def test_a_base_url_alone_is_half_an_answer(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--base-url needs --model"):
        load_settings(home=tmp_path, flags={"base_url": "http://localhost/v1"})
