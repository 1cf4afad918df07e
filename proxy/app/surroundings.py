"""What `doctor` sees of the configuration and the machine, and serve and hub too as they start: all but the store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from proxy.app.parts import upstream_of
from proxy.config import Config
from proxy.core import checks
from proxy.core.adapter import Adapter
from proxy.core.checks import Check
from proxy.core.facts_file import BadAdapter
from proxy.edges import probing
from proxy.edges.adapter_files import load_all


async def look_around(config: Config) -> list[Check]:
    """Look at the spool, the adapters, the upstreams, the authorities, and the files of secrets."""
    refused, free = await asyncio.to_thread(probing.folder_refuses, Path(config.state.spool))
    found = [checks.spool(config.state.spool, refused, free)]
    adapters: list[Adapter] = []
    for name, provider in config.providers.items():
        try:
            [adapter] = load_all({name: provider.adapter}).values()
            adapters.append(adapter)
            found.append(checks.adapter(name, None, len(adapter.doc.action)))
        except BadAdapter as broken:
            found.append(checks.adapter(name, str(broken), 0))
    found += await asyncio.gather(*(_upstream(config, adapter) for adapter in adapters))
    found += [checks.authority(name, path, probing.unreadable_authority(path)) for name, path in _authorities(config)]
    return [*found, *_operators(config)]


async def _upstream(config: Config, adapter: Adapter) -> Check:
    url = urlsplit(upstream_of(config, adapter))
    host = url.hostname or ""
    return checks.upstream(adapter.name, host, await probing.unresolved(host, url.port or 443))


def _authorities(config: Config) -> Iterator[tuple[str, str]]:
    """Yield every file of certificates that we are told to trust, with whose it is."""
    for name, provider in config.providers.items():
        if provider.ca_file is not None:
            yield name, provider.ca_file


def _operators(config: Config) -> Iterator[Check]:
    """Is there a token, and who may read it, and the other secrets that stand in files?"""
    names, made = [token.name for token in config.admin.tokens], token_path(config)
    asked = None if config.listen.admin is None else str(made)
    yield checks.token(names, asked, is_there=made.exists())
    files = list(config.secret_files)
    if not names and asked is not None and made.exists():
        files.append(("admin.token", str(made)))
    for setting, path in files:
        yield checks.secret_file(setting, path, probing.mode_of(Path(path)), is_token=setting.startswith("admin."))


def token_path(config: Config) -> Path:
    """Return where the operators' token is that we make where none is configured."""
    return Path(config.store.url.folder or Path(config.state.spool).parent) / "admin.token"
