"""`watchbell tools`: the catalog of the tools that every agent of the program has."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from watchbell.cli import options
from watchbell.cli.console.guard import guarded
from watchbell.cli.console.output import print_table
from watchbell.schedule.tools import catalog_tools
from watchbell.tools.catalog import catalog, render_catalog_json, render_catalog_markdown


@guarded
def tools(
    as_json: options.Json = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/tool-catalog.md.")
    ] = False,
    home: options.Home = options.DEFAULT_HOME,
) -> int:
    """Show the tools that the model can call, with their schemas. They are the same for every session."""
    if as_json and as_markdown:
        raise typer.BadParameter("choose one of --json and --markdown", param_hint="--markdown")
    offered = catalog_tools()
    if as_json:
        sys.stdout.write(render_catalog_json(offered).decode())
    elif as_markdown:
        sys.stdout.write(render_catalog_markdown(offered))
    else:
        rows = [
            [
                entry["name"],
                ", ".join(entry["parameters"]["properties"]),
                _first_sentence(entry["description"]),
            ]
            for entry in catalog(offered)
        ]
        print_table(["TOOL", "ARGUMENTS", "WHAT IT DOES"], rows)
    return 0


def _first_sentence(text: str) -> str:
    return text.split(". ", 1)[0].rstrip(".") + "."
