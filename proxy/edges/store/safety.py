"""Is a store safe to keep actions in? Read from `INFO` alone: managed services forbid `CONFIG`.

What `INFO` does not show is "not verifiable", in those words. An eviction policy that drops keys without a time to live
loses acknowledged records without an error (measured), and is refused.
"""

from collections.abc import Mapping
from typing import Final

from proxy.core.checks import Check, Level

OLDEST: Final = (6, 2)  # Scripts that read the time and then write, `struct` and `cmsgpack`.
HEADROOM: Final = 0.9
SKEW_MS: Final = 2_000


def judge(info: Mapping[str, str], store_ms: int | None, wall_ms: int) -> list[Check]:
    """Judge a store by its `INFO` and its `TIME`, None where it tells none. Times in milliseconds since the epoch."""
    return [_version(info), _role(info), _policy(info), _persistence(info), _memory(info), _skew(store_ms, wall_ms)]


def parse(text: str) -> dict[str, str]:
    """Read the answer to `INFO`."""
    lines = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value.strip() for name, _, value in lines}


def _version(info: Mapping[str, str]) -> Check:
    text = info.get("redis_version", "")
    shown = f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {text}"
    numbers = tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
    if len(numbers) < 2:
        return Check("store version", Level.UNVERIFIABLE, "INFO names no version", "Use Redis 6.2 or later, or Valkey.")
    if numbers < OLDEST:
        return Check("store version", Level.BAD, shown, "Use Redis 6.2 or later, or Valkey.")
    return Check("store version", Level.GOOD, shown)


def _role(info: Mapping[str, str]) -> Check:
    role = info.get("role")
    if role is None:
        return Check("store role", Level.UNVERIFIABLE, "INFO names no role", "Let store.url lead to the primary.")
    if role != "master":
        return Check("store role", Level.BAD, "a replica: it cannot be written", "Let store.url lead to the primary.")
    return Check("store role", Level.GOOD, f"primary, {info.get('connected_slaves', '0')} replicas")


def _policy(info: Mapping[str, str]) -> Check:
    policy = info.get("maxmemory_policy")
    if policy is None:
        return Check("eviction", Level.UNVERIFIABLE, "INFO names no policy", "Make sure that it is noeviction.")
    if policy.startswith("allkeys"):
        return Check(
            "eviction",
            Level.BAD,
            f"{policy}: it drops records without an error",
            "Set maxmemory-policy to noeviction.",
            stops=True,
        )
    if policy != "noeviction":
        return Check(
            "eviction", Level.WARNING, f"{policy}: ours carry no TTL and stay, others' go", "Prefer noeviction."
        )
    return Check("eviction", Level.GOOD, policy)


def _persistence(info: Mapping[str, str]) -> Check:
    enabled = info.get("aof_enabled")
    if enabled is None:
        return Check("persistence", Level.UNVERIFIABLE, "INFO says nothing of it", "Make sure that writes are kept.")
    if enabled != "1":
        return Check(
            "persistence",
            Level.WARNING,
            "no append-only file: a restart forgets what came after the last snapshot",
            "Turn on appendonly, with appendfsync always or everysec.",
            loud=True,
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        return Check("persistence", Level.BAD, "the last write to the append-only file failed", "Look at its disk.")
    return Check("persistence", Level.GOOD, "append-only file (how often it is synced is not verifiable)")


def _memory(info: Mapping[str, str]) -> Check:
    used, most = info.get("used_memory", ""), info.get("maxmemory", "")
    if not used.isdecimal() or not most.isdecimal():
        return Check("memory", Level.UNVERIFIABLE, "INFO says nothing of it", "Make sure that there is room.")
    if int(most) == 0:
        return Check("memory", Level.GOOD, f"{int(used) >> 20} MiB used, no bound of its own")
    share = int(used) / int(most)
    found = f"{int(used) >> 20} of {int(most) >> 20} MiB used"
    if share >= HEADROOM:
        return Check("memory", Level.WARNING, found, "Give it more: full, it refuses writes, and nothing is sent.")
    return Check("memory", Level.GOOD, found)


def _skew(store_ms: int | None, wall_ms: int) -> Check:
    if store_ms is None:
        return Check("clock", Level.UNVERIFIABLE, "the store does not tell its time", "Allow the command TIME.")
    skew_ms = wall_ms - store_ms
    if abs(skew_ms) > SKEW_MS:
        return Check("clock", Level.WARNING, f"{abs(skew_ms)} ms from the store's", "Synchronise both (NTP).")
    return Check("clock", Level.GOOD, f"{abs(skew_ms)} ms from the store's")
