"""`doubtless adapters`: what is known of providers."""

import sys

import click

from proxy.cli.common import BAD_USAGE, config_option, configuration, json_option, refuse, show_json
from proxy.core.adapter import Adapter
from proxy.core.facts_file import BadAdapter
from proxy.edges.adapter_files import SHIPPED, from_file, load_all, shipped


@click.group()
def adapters() -> None:
    """List, show and check adapters."""


def _known(config_path: str | None) -> dict[str, Adapter]:
    if config_path is None:
        return {name: shipped(name) for name in SHIPPED}
    config = configuration(config_path)
    return load_all({name: provider.adapter for name, provider in config.providers.items()})


def _routes(adapter: Adapter) -> list[dict[str, object]]:
    return [
        {
            "action_type": f"{adapter.name}.{route.type}",
            "method": route.method,
            "path": route.path,
            "tier": "read" if route.harmless else route.tier.value,
            "effect": route.effect.value,
            "echo": route.echo,
            "replay": route.replay,
        }
        for route in adapter.doc.action
    ]


@adapters.command("list")
@json_option
@config_option
def list_(config_path: str | None, as_json: bool) -> None:
    """List the providers that are known."""
    known = _loaded(config_path)
    if as_json:
        rows = [
            {"provider": name, "hosts": list(adapter.doc.provider.hosts), "actions": len(adapter.doc.action)}
            for name, adapter in known.items()
        ]
        show_json({"data": rows})
        return
    for name, adapter in known.items():
        click.echo(f"{name:<12} {len(adapter.doc.action):>3} action types   {', '.join(adapter.doc.provider.hosts)}")


@adapters.command()
@click.argument("provider")
@json_option
@config_option
def show(provider: str, config_path: str | None, as_json: bool) -> None:
    """Show a provider's action types, with tier and flags."""
    known = _loaded(config_path)
    if provider not in known:
        refuse(f"There is no adapter {provider!r}; there are {', '.join(known)}.")
    routes = _routes(known[provider])
    if as_json:
        show_json({"provider": provider, "data": routes})
        return
    for route in routes:
        flags = " ".join(flag for flag in ("echo", "replay") if route[flag])
        words = f"{route['action_type']:<44} {route['tier']:<13} {route['effect']:<8} {flags:<12}"
        click.echo(f"{words} {route['method']} {route['path']}")


@adapters.command()
@click.argument("file")
@config_option
def check(file: str, config_path: str | None) -> None:
    """Check an adapter file."""
    del config_path
    try:
        adapter = from_file(file)
    except BadAdapter as wrong:
        click.echo(str(wrong), err=True)
        sys.exit(BAD_USAGE)
    click.echo(f"{file}: good. {adapter.name}: {len(adapter.doc.action)} action types.")


def _loaded(config_path: str | None) -> dict[str, Adapter]:
    try:
        return _known(config_path)
    except BadAdapter as wrong:
        click.echo(str(wrong), err=True)
        sys.exit(BAD_USAGE)
