"""Settings that are known, and whose promise this version does not keep yet."""

from proxy.config import Complaint, Config, StoreKind


def not_built(config: Config) -> list[Complaint]:
    """Return the settings whose promise this version does not keep: set, they are refused, not passed over."""
    url = config.store.url
    refused = [
        ("store.wait_replicas", str(config.store.wait_replicas), config.store.wait_replicas > 0),
        ("store.url", url.shown, url.kind in (StoreKind.SENTINEL, StoreKind.CLUSTER)),
        ("listen.transparent", str(config.listen.transparent), config.listen.transparent is not None),
        ("listen.webhooks", str(config.listen.webhooks), config.listen.webhooks is not None),
        ("admin.trusted_proxies", f"{len(config.admin.trusted_proxies)} networks", bool(config.admin.trusted_proxies)),
        ("admin.four_eyes_above", f"{len(config.admin.four_eyes_above)} amounts", bool(config.admin.four_eyes_above)),
        ("notify", f"{len(config.notify)} targets", bool(config.notify)),
        *((f"providers.{name}.stamp", "true", p.stamp) for name, p in config.providers.items()),
    ]
    return [Complaint(name, value, "is not built in this version") for name, value, is_set in refused if is_set]
