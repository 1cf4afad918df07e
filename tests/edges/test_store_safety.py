"""What `INFO` proves of a store: every row of the judgement, from the text of real servers, as values."""

import pytest

from proxy.core.checks import Check, Level
from proxy.edges.store.safety import judge, parse

INFO = """# Server\r
redis_version:7.2.4\r
valkey_version:9.1.2\r
# Memory\r
used_memory:1048576\r
maxmemory:0\r
maxmemory_policy:noeviction\r
# Persistence\r
aof_enabled:1\r
aof_last_write_status:ok\r
# Replication\r
role:master\r
connected_slaves:1\r
"""
NOW = 1_790_000_000_000


def judged(store_ms: int | None = NOW, **changed: str | None) -> dict[str, Check]:
    info = parse(INFO) | {name: value for name, value in changed.items() if value is not None}
    for name in [name for name, value in changed.items() if value is None]:
        info.pop(name, None)
    return {check.what: check for check in judge(info, store_ms, NOW)}


def test_a_store_as_it_should_be_is_good_in_every_line() -> None:
    checks = judged()
    assert {check.level for check in checks.values()} == {Level.GOOD}
    assert checks["store version"].found == "Valkey 9.1.2"
    assert judged(valkey_version=None)["store version"].found == "Redis 7.2.4"


@pytest.mark.parametrize(
    ("what", "changed", "level"),
    [
        ("store version", {"redis_version": "6.0.9"}, Level.BAD),
        ("store version", {"redis_version": "6.2.14"}, Level.GOOD),
        ("store version", {"redis_version": "7.10.1"}, Level.GOOD),
        ("store version", {"redis_version": "unstable"}, Level.UNVERIFIABLE),
        ("store version", {"redis_version": None}, Level.UNVERIFIABLE),
        ("store role", {"role": "slave"}, Level.BAD),
        ("store role", {"role": None}, Level.UNVERIFIABLE),
        ("eviction", {"maxmemory_policy": "allkeys-lru"}, Level.BAD),
        ("eviction", {"maxmemory_policy": "allkeys-lfu"}, Level.BAD),
        ("eviction", {"maxmemory_policy": "allkeys-random"}, Level.BAD),
        ("eviction", {"maxmemory_policy": "volatile-lru"}, Level.WARNING),
        ("eviction", {"maxmemory_policy": None}, Level.UNVERIFIABLE),
        ("persistence", {"aof_enabled": "0"}, Level.WARNING),
        ("persistence", {"aof_last_write_status": "err"}, Level.BAD),
        ("persistence", {"aof_enabled": None}, Level.UNVERIFIABLE),
        ("memory", {"maxmemory": "1048576"}, Level.WARNING),
        ("memory", {"maxmemory": "4194304"}, Level.GOOD),
        ("memory", {"maxmemory": None}, Level.UNVERIFIABLE),
    ],
)
def test_each_line_follows_from_what_is_shown(what: str, changed: dict[str, str | None], level: Level) -> None:
    checks = judged(**changed)
    assert checks[what].level == level
    assert {check.level for name, check in checks.items() if name != what} == {Level.GOOD}
    assert level is Level.GOOD or checks[what].do


@pytest.mark.parametrize(
    ("store_ms", "level"),
    [
        (NOW - 2_000, Level.GOOD),
        (NOW - 2_001, Level.WARNING),
        (NOW + 2_001, Level.WARNING),
        (None, Level.UNVERIFIABLE),
    ],
)
def test_clocks_that_differ_by_more_than_two_seconds_are_a_warning(store_ms: int | None, level: Level) -> None:
    assert judged(store_ms)["clock"].level == level


def test_only_what_loses_records_in_silence_stops_a_start_and_only_what_forgets_is_loud() -> None:
    policies = ("allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "noeviction")
    assert [judged(maxmemory_policy=policy)["eviction"].stops for policy in policies] == [True] * 3 + [False] * 2
    worst = judged(redis_version="6.0.9", role="slave", aof_enabled="0", maxmemory="1")
    assert [name for name, check in worst.items() if check.stops] == []
    assert [name for name, check in worst.items() if check.loud] == ["persistence"]
