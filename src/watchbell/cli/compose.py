"""The program's host: which parts it is made of, and who speaks in its sessions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path
from typing import Any

import msgspec
import typer

from watchbell.cli.options import choose_zone
from watchbell.host import Host, time_context
from watchbell.host.time_context import TIME_ZONE_KEY
from watchbell.models.base import ChatModel
from watchbell.models.offline import OfflineModel
from watchbell.schedule.plugin import plugin
from watchbell.storage.jsonl import JsonlStorage
from watchbell.zones import ZoneTable

__all__ = ["MODELS", "Program"]

MODELS: dict[str, Callable[[], ChatModel]] = {"offline": OfflineModel}
"""The models that `--model` can name."""


class Program(msgspec.Struct, frozen=True):
    """What a command that talks was told.

    Attributes:
        home: Where its sessions are.
        model: Who answers.
        zones: Where time zones are looked up.
        zone_name: The person's time zone, None when it is not known.
    """

    home: Path
    model: ChatModel
    zones: ZoneTable
    zone_name: str | None

    @classmethod
    def choose(cls, home: Path, model: str, time_zone: str | None) -> Program:
        """Make it from a command's options.

        Raises:
            typer.BadParameter: There is no model or zone of that name.
        """
        if model not in MODELS:
            raise typer.BadParameter(
                f"there is no model {model!r}; choose from: {', '.join(MODELS)}", param_hint="--model"
            )
        zones = ZoneTable()
        return cls(home, MODELS[model](), zones, choose_zone(time_zone, zones))

    @property
    def zone(self) -> tzinfo | None:
        """The person's zone, None when it is not known."""
        return None if self.zone_name is None else self.zones.find(self.zone_name)

    @property
    def person(self) -> dict[str, Any]:
        """The source of the messages that the person at this terminal sends."""
        known = {} if self.zone_name is None else {TIME_ZONE_KEY: self.zone_name}
        return {"kind": "user", **known}

    def host(self) -> Host:
        """Compose the host; entering it is the caller's."""
        return Host(
            storage=JsonlStorage(self.home),
            model=self.model,
            plugins=[plugin(zones=self.zones), time_context(time_zone=self.zone_name, zones=self.zones)],
        )
