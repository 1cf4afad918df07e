"""`doubtless actions`: the queue, from a terminal."""

import sys
from typing import Any

import click

from proxy.cli.common import REFUSED, AdminPort, config_option, json_option, show_json
from proxy.core import money, view
from proxy.core.model import Amount

SETTLED = ("confirmed", "failed")


@click.group()
def actions() -> None:
    """List and show actions, and ask the provider's record about one."""


@actions.command("list")
@click.option("--status", help="pending, confirmed, failed, denied_unresolved or unknown.")
@click.option("--provider")
@click.option("--event", "event_id", help="Its event ID.")
@click.option("--type", "action_type", help="Its action type.")
@click.option("--needs-operator", is_flag=True, help="Only what a person must settle.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 200))
@click.option("--cursor", help="Where the last page ended.")
@json_option
@config_option
def list_(config_path: str | None, as_json: bool, needs_operator: bool, **filters: Any) -> None:
    """List actions, newest first."""
    asked = {name: str(value) for name, value in filters.items() if value is not None}
    if needs_operator:
        asked["needs_operator"] = "true"
    from urllib.parse import urlencode

    page = AdminPort(config_path).ask("GET", f"actions?{urlencode(asked)}")
    if as_json:
        show_json(page)
        return
    _table(page["data"])
    if page["next_cursor"]:
        click.echo(f"More: --cursor {page['next_cursor']}")


@actions.command()
@click.argument("action_id")
@json_option
@config_option
def show(action_id: str, config_path: str | None, as_json: bool) -> None:
    """Show one action: both axes, its evidence, its read-backs."""
    action = AdminPort(config_path).ask("GET", f"actions/{_segment(action_id)}")
    if as_json:
        show_json(action)
    else:
        _detail(action)


@actions.command()
@click.argument("action_id")
@json_option
@config_option
def reconcile(action_id: str, config_path: str | None, as_json: bool) -> None:
    """Ask the provider's own record about one action, now. Only reads. Exits 1 while it is not settled."""
    action = AdminPort(config_path).ask("POST", f"actions/{_segment(action_id)}/reconcile")
    if as_json:
        show_json(action)
    else:
        last = action["attempts"][-1] if action["attempts"] else None
        found = f" · the record was asked: {last['result']} {last['detail'] or ''}".rstrip() if last else ""
        click.echo(f"{_word(action)}{found}")
        if last and last["detail"] == "no_credential":
            click.echo(f"No credential is kept any more: set providers.{action['provider']}.read_key, and ask again.")
    if action["status"] not in SETTLED:
        sys.exit(REFUSED)


def _segment(action_id: str) -> str:
    from urllib.parse import quote

    return quote(action_id, safe="")


def _word(action: "dict[str, Any]") -> str:
    return view.word(action["status"], action["grade"])


def _amount(action: "dict[str, Any]") -> str:
    if action["amount"] is None:
        return ""
    return money.human(Amount(action["amount"], action["currency"]))


def _table(rows: "list[dict[str, Any]]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo("No actions.")
        return
    table = Table(box=None, pad_edge=False)
    for name in ("STATE", "ACTION", "AMOUNT", "EVENT", "CAUSE", "SINCE", "ACTION ID"):
        table.add_column(name, overflow="fold")
    for action in rows:
        cells = (
            _word(action),
            action["action_type"],
            _amount(action),
            action["event_id"],
            action["cause"] or "",
            action["unknown_since"] or action["created_at"],
            action["action_id"],
        )
        table.add_row(*map(Text, cells))  # Not markup: an event ID may hold brackets.
    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    console.print(table)


def _detail(action: "dict[str, Any]") -> None:
    lines = [
        ("state", f"{_word(action)}   delivery {action['delivery']} · acceptance {action['acceptance']}"),
        ("action", f"{action['action_type']}  {_amount(action)}".rstrip()),
        ("event", action["event_id"]),
        ("account", f"{action['provider']} {action['account']}"),
        ("key", action["idempotency_key"]),
        ("cause", action["cause"] or action["unknown_cause"]),
        ("object", action["provider_object_id"]),
        ("credential", action["credential"]),
        ("checks", f"{action['readbacks']} counted; next {action['next_readback_at'] or 'none'}"),
        ("settled", f"{action['settled_at']} by {action['settled_by']['source']}" if action["settled_by"] else None),
        ("retry of", action["retry_of"]),
    ]
    for name, value in lines:
        if value:
            click.echo(f"{name:<11} {value}")
    flags = [
        f for f in ("needs_operator", "contradicted", "duplicate_suspected", "prior_execution", "partial") if action[f]
    ]
    if flags:
        click.echo(f"{'flags':<11} {', '.join(flags)}")
    click.echo("evidence")
    for piece in action["evidence"]:
        status = f" {piece['upstream_status']}" if piece["upstream_status"] else ""
        by = f" by {piece['by']}" if piece["by"] else ""
        click.echo(f"  {piece['at']}  {piece['source']:<13} {piece['verdict']}{status} {piece['detail'] or ''}{by}")
    for attempt in action["attempts"]:
        click.echo(f"  {attempt['at']}  asked record  {attempt['result']} {attempt['detail'] or ''}".rstrip())
