"""What the configuration says, as the parts take it."""

from collections.abc import Mapping

from proxy.config import Config, key_bytes
from proxy.core.adapter import Adapter
from proxy.core.limits import Limit
from proxy.core.records import Period
from proxy.edges.upstream import Origin, tls_context
from proxy.engine import Settings


def engine_settings(config: Config, instance: str, lease_ms: int) -> Settings:
    """Say to the engine what the configuration says."""
    providers = config.providers
    return Settings(
        instance=instance,
        ledger=config.store.ledger,
        connect_ms=config.deadlines.connect_ms,
        answer_ms=config.deadlines.answer_ms,
        harvest_ms=config.deadlines.harvest_ms,
        lease_ms=lease_ms,
        retry_window_ms=config.event.retry_window_ms,
        twin=config.event.twin,
        derive=config.event.missing == "derive",
        event_headers=config.event.headers,
        readback_first_ms=config.readback.first_ms,
        readback_max_ms=config.readback.max_ms,
        readback_attempts=config.readback.attempts,
        min_age_ms={name: p.min_age_ms for name, p in providers.items() if p.min_age_ms is not None},
        same_credentials={
            name: tuple(frozenset(group) for group in p.same_credentials) for name, p in providers.items()
        },
        read_keys={
            name: {("" if account == "*" else account): key.reveal() for account, key in p.read_key.items()}
            for name, p in providers.items()
        },
        limits=limits_of(config),
    )


def limits_of(config: Config) -> tuple[Limit, ...]:
    """Return the configured limits as the core takes them."""
    return tuple(
        Limit(
            name=limit.name,
            match=limit.match,
            period=Period(limit.period),
            amount=limit.amount,
            currency=limit.currency,
            count=limit.count,
            provider=limit.provider or None,
            account=limit.account or None,
        )
        for limit in config.limits
    )


def adapter_paths(config: Config) -> dict[str, str | None]:
    """Return the adapter file of each provider, as `load_all` takes them."""
    return {name: provider.adapter for name, provider in config.providers.items()}


def upstream_of(config: Config, adapter: Adapter) -> str:
    """Return the URL of a provider: the configuration's, else the adapter's."""
    upstream = config.providers[adapter.name].upstream
    return str(upstream) if upstream is not None else adapter.doc.provider.upstream


def origins_of(config: Config, adapters: Mapping[str, Adapter]) -> dict[str, Origin]:
    """Return where each provider is reached. Raises OSError: a CA file cannot be read."""
    out = {}
    for name, adapter in adapters.items():
        url = upstream_of(config, adapter)
        tls = tls_context(config.providers[name].ca_file) if url.startswith("https:") else None
        out[name] = Origin.parse(url, tls)
    return out


def types_of(adapters: Mapping[str, Adapter]) -> list[tuple[str, str]]:
    """Return the action types that are known, with their providers."""
    routes = [(name, route) for name, adapter in adapters.items() for route in adapter.doc.action]
    return [(name, f"{name}.{route.type}") for name, route in routes if not route.harmless]


def state_key(text: str) -> bytes:
    """Return a state key's bytes."""
    key = key_bytes(text)
    assert key is not None, "the configuration has checked it, and the embedded store made it"
    return key
