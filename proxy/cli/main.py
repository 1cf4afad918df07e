"""The commands, put together. Exit codes: 0 done, 1 refused or not settled, 2 bad usage or configuration."""

import click

from proxy import __version__
from proxy.cli.actions import actions
from proxy.cli.adapters import adapters
from proxy.cli.configuration import config
from proxy.cli.demo import demo, sandbox
from proxy.cli.doctor import doctor
from proxy.cli.serving import hub, serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Doubtless: an action whose outcome is unknown is never called failed and never sent again by itself."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"doubtless {__version__}")


for command in (serve, hub, demo, sandbox, actions, adapters, config, doctor):
    main.add_command(command)
