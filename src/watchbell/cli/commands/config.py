"""`watchbell config`: what is set, and where."""

from __future__ import annotations

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_json, print_table


@guarded
def config(
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    time_zone: options.TimeZone = None,
    config: options.Config = None,
    as_json: options.Json = False,
    home: options.GivenHome = None,
) -> int:
    """Show the settings as they apply, and where each comes from; secrets are masked.

    Later ones win: the defaults, `watchbell.toml`, variables such as WATCHBELL_MODEL, options.
    """
    effective = options.find_settings(home, config, model=model, base_url=base_url, time_zone=time_zone)
    rows = effective.describe()
    if as_json:
        print_json({name: {"value": value or None, "origin": origin} for name, value, origin in rows})
    else:
        cells = [[name, value or "-", origin] for name, value, origin in rows]
        print_table(["SETTING", "VALUE", "FROM"], cells)
    return 0
