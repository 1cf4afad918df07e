"""`doubtless serve` and `doubtless hub`."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from proxy.cli.common import BAD_USAGE, complain, config_option, configuration
from proxy.cli.unbuilt import check_built
from proxy.config import Complaints, Config

if TYPE_CHECKING:
    from proxy.app import Instance


@click.command()
@config_option
def serve(config_path: str | None) -> None:
    """Run the sidecar: proxy, reconciler and admin port."""
    from proxy.app import App  # Heavy; other commands need none of it.

    sys.exit(run(App, configuration(config_path)))


@click.command()
@config_option
def hub(config_path: str | None) -> None:
    """Run a hub: reconciler and admin port for the sidecars of a shared store; no proxy."""
    from proxy.app import Hub

    sys.exit(run(Hub, configuration(config_path)))


def run(kind: "Callable[[Config], Instance]", config: Config) -> int:
    """Run an instance until a signal to stop; the exit code."""
    from proxy.app import Refused
    from proxy.app import run as run_until_stopped
    from proxy.core.facts_file import BadAdapter
    from proxy.edges.embedded import EmbeddedError

    try:
        check_built(config)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(run_until_stopped(kind, config))
    except Complaints as wrong:
        complain(wrong)
    except (BadAdapter, EmbeddedError, Refused) as wrong:
        click.echo(str(wrong), err=True)
        return BAD_USAGE
    except OSError as wrong:
        click.echo(f"Cannot start: {wrong.strerror or wrong} {wrong.filename or ''}".strip(), err=True)
        return BAD_USAGE
    return 0


def _loop_factory() -> "Callable[[], asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
