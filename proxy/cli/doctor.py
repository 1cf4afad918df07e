"""`doubtless doctor`."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

import click

from proxy.cli.common import REFUSED, complain, config_option, configuration, json_option, show_json
from proxy.cli.unbuilt import not_built
from proxy.config import Complaints
from proxy.core.checks import Check, Level, counted

COLOURS: Final = {Level.GOOD: "green", Level.UNVERIFIABLE: "cyan", Level.WARNING: "yellow", Level.BAD: "bold red"}


@click.command()
@json_option
@config_option
def doctor(config_path: str | None, as_json: bool) -> None:
    """Look at the store, the spool, the providers and the secrets; exit 1 where anything is bad. Changes nothing."""
    from proxy.app.doctor import examine  # Heavy; other commands need none of it.

    config = configuration(config_path)
    if missing := not_built(config):
        complain(Complaints(missing))
    checks = asyncio.run(examine(config))
    counts = counted(checks)
    if as_json:
        rows = [{"what": c.what, "level": c.level, "found": c.found, "do": c.do or None} for c in checks]
        show_json({"data": rows, **{level.value.replace(" ", "_"): count for level, count in counts.items()}})
    else:
        _lines(checks)
        parts = [f"{count} {level}" for level, count in counts.items() if count]
        click.echo(f"{len(checks)} checks: {', '.join(parts)}.")
    if counts[Level.BAD]:
        sys.exit(REFUSED)


def _lines(checks: Sequence[Check]) -> None:
    """Print one line a check; in colours where a person looks at a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    width = max(len(check.what) for check in checks)
    for check in checks:
        do = f"  → {check.do}" if check.do and check.level is not Level.GOOD else ""
        level = f"{check.level:<14}"
        console.print(Text.assemble(f"{check.what:<{width}}  ", (level, COLOURS[check.level]), f"  {check.found}{do}"))
