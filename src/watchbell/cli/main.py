"""The program `watchbell`: its commands, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from watchbell import __version__
from watchbell.cli import options
from watchbell.cli.commands.call import call
from watchbell.cli.commands.chat import chat
from watchbell.cli.commands.config import config as show_config
from watchbell.cli.commands.demo import demo, demo_host
from watchbell.cli.commands.doctor.command import doctor
from watchbell.cli.commands.log import log
from watchbell.cli.commands.receipts import receipts
from watchbell.cli.commands.reminders import reminders
from watchbell.cli.commands.run import run
from watchbell.cli.commands.sessions import sessions
from watchbell.cli.commands.tools import tools
from watchbell.cli.commands.verify import verify
from watchbell.cli.console.guard import report, start_logging
from watchbell.cli.console.output import prepare_streams
from watchbell.errors import WatchbellError

app = typer.Typer(
    name="watchbell",
    no_args_is_help=True,
    # Nothing that stands in an argument or a log is ever taken for markup.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, chat, run, sessions, reminders, receipts, log, verify, doctor, tools, call):
    app.command()(command)
app.command("config")(show_config)
app.command(hidden=True)(demo_host)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"watchbell {__version__}")
        raise typer.Exit


@app.callback()
def watchbell(
    ctx: typer.Context,
    home: options.GivenHome = None,
    config: options.Config = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Durable reminders for agents: talk to one, and look at what is stored.

    Exit codes: 0 fine, 1 the operation failed, 2 wrong usage, 128 + n after signal n.
    """
    ctx.obj = options.ProgramOptions(home, config)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; `arguments` are those of the process when None."""
    prepare_streams()
    start_logging()
    try:
        app(args=None if arguments is None else list(arguments), prog_name="watchbell")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except WatchbellError as error:  # a setting that an option's default comes from
        report(error)
        return 1
    return 0
