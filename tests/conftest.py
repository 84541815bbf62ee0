"""What holds for every test: a home of its own, no account of the developer's, repeatable properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: a slow machine is not a bug. The same examples every time, unless new ones are searched for.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=2_000)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep a test, and each program that it starts, away from real sessions and paid models."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("WATCHBELL_HOME", str(home))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests unless `-m slow` asks for them, as CI does."""
    if "slow" in config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason='slow: `make test ARGS="-m slow"` runs it'))


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stands between the test and a server of its own."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
