"""Settings that are known, and whose promise this version does not keep yet.

Refused is what somebody relies on for safety, or would be served by something else. What only is missing is said.
"""

import click

from proxy.config import Complaint, Complaints, Config, StoreKind


def not_built(config: Config) -> list[Complaint]:
    """Return the settings whose promise this version does not keep: set, they are refused, not passed over."""
    url = config.store.url
    refused = [
        ("store.wait_replicas", str(config.store.wait_replicas), config.store.wait_replicas > 0),
        ("store.url", url.shown, url.kind in (StoreKind.SENTINEL, StoreKind.CLUSTER)),
        ("listen.transparent", str(config.listen.transparent), config.listen.transparent is not None),
        ("admin.four_eyes_above", f"{len(config.admin.four_eyes_above)} amounts", bool(config.admin.four_eyes_above)),
        ("notify", f"{len(config.notify)} targets", bool(config.notify)),
        *((f"providers.{name}.stamp", "true", p.stamp) for name, p in config.providers.items()),
    ]
    return [Complaint(name, value, "is not built in this version") for name, value, is_set in refused if is_set]


def only_missing(config: Config) -> list[str]:
    """Return what is set, does no harm, and does nothing yet."""
    secrets = [f"providers.{name}.webhook_secret" for name, p in config.providers.items() if p.webhook_secret]
    hooks = ["listen.webhooks"] if config.listen.webhooks is not None else []
    return [*hooks, *secrets, *(["admin.trusted_proxies"] if config.admin.trusted_proxies else [])]


def check_built(config: Config) -> None:
    """Say what is missing, on stderr. Raises Complaints: settings that are refused."""
    if refused := not_built(config):
        raise Complaints(refused)
    for name in only_missing(config):
        click.echo(f"WARNING: {name} is set, is not built in this version, and does nothing.", err=True)
