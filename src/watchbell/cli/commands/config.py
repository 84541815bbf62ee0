"""`watchbell config`: what is set, and where."""

from __future__ import annotations

from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json, print_table
from watchbell.cli.options import (
    BaseUrlOption,
    ConfigOption,
    GivenHomeOption,
    JsonOption,
    ModelOption,
    TimeZoneOption,
    find_settings,
)

__all__ = ["config"]


@guarded
def config(
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    time_zone: TimeZoneOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    home: GivenHomeOption = None,
) -> int:
    """Show the settings as they apply, and where each comes from; secrets are masked.

    Later ones win: the defaults, `watchbell.toml`, variables such as WATCHBELL_MODEL, options.
    """
    effective = find_settings(home, config, model=model, base_url=base_url, time_zone=time_zone)
    rows = effective.describe()
    if as_json:
        print_json({name: {"value": value or None, "origin": origin} for name, value, origin in rows})
    else:
        print_table(
            ["SETTING", "VALUE", "FROM"], [[name, value or "-", origin] for name, value, origin in rows]
        )
    return 0
