"""`doubtless config`."""

import asyncio
import os
import socket
import sys

import click

from proxy.cli.common import BAD_USAGE, complain, config_option
from proxy.cli.unbuilt import check_built
from proxy.config import Complaints, Config, load
from proxy.core.facts_file import BadAdapter
from proxy.edges.adapter_files import load_all


@click.group()
def config() -> None:
    """Check a configuration."""


@config.command()
@click.argument("file", required=False)
@click.option("--offline", is_flag=True, help="Do not resolve or reach anything.")
@config_option
def check(file: str | None, config_path: str | None, offline: bool) -> None:
    """Check a configuration file: every complaint at once, exit 2."""
    path = file or config_path
    try:
        found = load(path, os.environ)
        adapters = load_all({name: provider.adapter for name, provider in found.providers.items()})
        check_built(found)
    except Complaints as wrong:
        complain(wrong)
    except BadAdapter as wrong:
        click.echo(str(wrong), err=True)
        sys.exit(BAD_USAGE)
    click.echo(f"{path or 'The default configuration'}: good. Providers: {', '.join(adapters)}.")
    if not offline and not asyncio.run(_reachable(found)):
        sys.exit(1)


async def _reachable(found: Config) -> bool:
    """Say which upstream hosts have an address."""
    loop, good = asyncio.get_running_loop(), True
    for name, provider in found.providers.items():
        if provider.upstream is None:
            continue
        host = provider.upstream.address.host
        try:
            await loop.getaddrinfo(host, provider.upstream.address.port, type=socket.SOCK_STREAM)
        except OSError:
            click.echo(f"  providers.{name}.upstream: {host} has no address here", err=True)
            good = False
    return good
