"""`doubtless serve`."""

import asyncio
import sys
from collections.abc import Callable

import click

from proxy.cli.common import BAD_USAGE, complain, config_option, configuration
from proxy.cli.unbuilt import not_built
from proxy.config import Complaints, Config


@click.command()
@config_option
def serve(config_path: str | None) -> None:
    """Run the sidecar: proxy, reconciler and admin port."""
    sys.exit(run(configuration(config_path)))


def run(config: Config) -> int:
    """Serve until a signal to stop; the exit code."""
    from proxy.app import serve as serve_until_stopped  # Heavy; other commands need none of it.
    from proxy.core.facts_file import BadAdapter
    from proxy.edges.embedded import EmbeddedError

    if missing := not_built(config):
        complain(Complaints(missing))
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve_until_stopped(config))
    except (BadAdapter, EmbeddedError) as wrong:
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
