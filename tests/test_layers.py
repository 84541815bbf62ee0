"""The import contracts forget no module."""

from __future__ import annotations

import pkgutil
from configparser import ConfigParser
from pathlib import Path

import watchbell

CONTRACTS = Path(__file__).parents[1] / ".importlinter"
NO_LAYER = {
    "watchbell",  # names what is public, from all layers
    "watchbell.__main__",  # starts the CLI
    "watchbell.testing",  # stands beside the layers; nothing imports it
}


def test_every_module_has_its_layer() -> None:
    config = ConfigParser()
    config.read_string(CONTRACTS.read_text(encoding="utf-8"))
    layers = config["importlinter:contract:layers"]["layers"].replace("|", " ").replace(":", " ").split()
    modules = {info.name for info in pkgutil.walk_packages(watchbell.__path__, "watchbell.")} - NO_LAYER
    without = {
        name
        for name in modules
        if not any(f"{name}.".startswith(f"{layer}.") for layer in [*layers, "watchbell.testing"])
    }
    assert not without, f"give it a layer in .importlinter: {without}"
