"""The program's host: which parts it is made of, and who speaks in its sessions."""

from __future__ import annotations

from datetime import tzinfo
from pathlib import Path

import msgspec

from watchbell.cli.local_zone import choose_zone
from watchbell.host import Host, time_context
from watchbell.host.settings import Settings, build_model
from watchbell.log.messages import PersonSource
from watchbell.models.base import ChatModel
from watchbell.reminders.arguments import Limits
from watchbell.schedule.plugin import plugin
from watchbell.storage.jsonl.store import JsonlStorage
from watchbell.zones import ZoneTable


class Program(msgspec.Struct, frozen=True):
    """What a command that talks was told.

    Attributes:
        settings: Everything that can be set.
        model: Who answers.
        zones: Where time zones are looked up.
        zone_name: The person's time zone, None when it is not known.
    """

    settings: Settings
    model: ChatModel
    zones: ZoneTable
    zone_name: str | None

    @classmethod
    def compose(cls, settings: Settings) -> Program:
        """Make it from the settings.

        Raises:
            SettingsError: The model cannot be used as set.
            ZoneDataError: The time zone data is missing.
        """
        zones = ZoneTable()
        return cls(settings, build_model(settings), zones, choose_zone(zones, settings.time_zone))

    @property
    def home(self) -> Path:
        """Where the sessions are."""
        return self.settings.home

    @property
    def zone(self) -> tzinfo | None:
        """The person's zone, None when it is not known."""
        return None if self.zone_name is None else self.zones.find(self.zone_name)

    @property
    def person(self) -> dict[str, object]:
        """The source of the messages that the person at this terminal sends."""
        return msgspec.to_builtins(PersonSource(self.zone_name))

    def host(self) -> Host:
        """Compose the host; entering it is the caller's."""
        limits = Limits(max_active=self.settings.max_active)
        return Host(
            storage=JsonlStorage(self.home, compression=self.settings.compression),
            model=self.model,
            system=self.settings.system,
            plugins=[
                plugin(limits=limits, zones=self.zones),
                time_context(time_zone=self.zone_name, zones=self.zones),
            ],
        )
