"""`doubtless demo` and `doubtless sandbox`."""

import asyncio
import contextlib
import signal
import sys

import click

from proxy.cli.common import BAD_USAGE, REFUSED, config_option


@click.command()
@click.option("--stay", is_flag=True, help="Stay up afterwards, on the usual ports.")
@config_option
def demo(config_path: str | None, stay: bool) -> None:
    """Tell the story of a lost answer, really run: with Doubtless, and without."""
    del config_path  # The demo brings its own.
    from proxy.demo import StoryBroken
    from proxy.demo import demo as run

    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run(click.echo, stay=stay))
    except StoryBroken as broken:
        click.echo(f"The story does not hold: not true that {broken}.", err=True)
        sys.exit(REFUSED)


@click.command()
@click.option("--stripe-port", default=7431, show_default=True, type=click.IntRange(0, 65_535))
@click.option("--resend-port", default=7432, show_default=True, type=click.IntRange(0, 65_535))
@click.option("--no-idempotency", is_flag=True, help="Nothing masks a duplicate.")
@config_option
def sandbox(config_path: str | None, stripe_port: int, resend_port: int, no_idempotency: bool) -> None:
    """Run the stand-in for Stripe and Resend alone, with faults on demand."""
    del config_path
    try:
        asyncio.run(_sandbox(stripe_port, resend_port, idempotency=not no_idempotency))
    except OSError as taken:
        click.echo(f"Cannot start: {taken.strerror or taken}; choose --stripe-port and --resend-port.", err=True)
        sys.exit(BAD_USAGE)


async def _sandbox(stripe_port: int, resend_port: int, *, idempotency: bool) -> None:
    from proxy.edges.clock import SystemClock
    from proxy.edges.standin import Listener, StandIn

    listen = (Listener("stripe", port=stripe_port), Listener("resend", port=resend_port))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with StandIn(clock=SystemClock().wall_ms, idempotency=idempotency, listen=listen) as standin:
        click.echo(f"Stripe  {standin.url('stripe')}   Resend  {standin.url('resend')}   (a stand-in, no real money)")
        click.echo(f'  providers.stripe.upstream = "{standin.url("stripe")}"')
        click.echo(f'  providers.resend.upstream = "{standin.url("resend")}"')
        click.echo(f'  curl -X POST {standin.url("stripe")}/_standin/faults -d \'{{"kind": "drop_after_commit"}}\'')
        click.echo(f"  curl {standin.url('stripe')}/_standin/journal")
        await stopping.wait()
