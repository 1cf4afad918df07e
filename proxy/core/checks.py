"""What `doctor` looks at, and what serve and hub look at as they start: values in, one line out.

What a store's own `INFO` shows is judged beside its client; here is all else. Nothing that was found is a secret.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

ROOM_MIN_BYTES: Final = 64 << 20  # What the spool may grow to.


class Level(StrEnum):
    """How a check came out, the worst last."""

    GOOD = "good"
    UNVERIFIABLE = "not verifiable"
    WARNING = "warning"
    BAD = "bad"


class Check(Struct, frozen=True):
    """One line: what was looked at, how it came out, what was found, and what to do about it.

    `stops`: serve and hub do not start with it. `loud`: they say it where people look, and not in the log alone.
    """

    what: str
    level: Level
    found: str
    do: str = ""
    stops: bool = False
    loud: bool = False


def counted(checks: Iterable[Check]) -> dict[Level, int]:
    """Return how many came out in each way."""
    counts = Counter(check.level for check in checks)
    return {level: counts[level] for level in Level}


def state_key(ours: Sequence[str], known: Mapping[str, int], now_ms: int, keep_ms: int) -> Check:
    """Judge the configured keys by those that a ledger was written with.

    Args:
        ours: the fingerprints of the configured keys, the newest first.
        known: those that the ledger knows, with when an instance last took each up, in ms since the epoch.
        now_ms: the store's time.
        keep_ms: how long what was sealed or digested with a key may still matter (`state.keep_scopes`).
    """
    if not known:
        return Check("state key", Level.GOOD, "usable; the ledger was not written with any yet")
    if not known.keys() & set(ours):
        return Check(
            "state key",
            Level.BAD,
            "it is another than the ledger was written with: what is kept cannot be opened, and retries not recognised",
            "Configure as state.key the key that the ledger's other instances have, or choose another store.ledger.",
            stops=True,
        )
    strangers = {key: at_ms for key, at_ms in known.items() if key not in ours and at_ms > now_ms - keep_ms}
    if strangers:
        count, day = len(strangers), _day(max(strangers.values()))
        others = "a further key" if count == 1 else f"{count} further keys"
        return Check(
            "state key",
            Level.WARNING,
            f"usable, but the ledger was also written with {others} that is not configured here (last taken up {day})",
            "List it in state.key too (the first seals, all open) until state.keep_scopes has passed.",
        )
    return Check("state key", Level.GOOD, "opens what the ledger holds")


def spool(folder: str, refused: str | None, free_bytes: int) -> Check:
    """Judge the spool's folder; `refused`: why nothing could be written there."""
    if refused is not None:
        return Check("spool", Level.BAD, f"{folder}: {refused}", "Let state.spool name a folder that we may write.")
    if free_bytes < ROOM_MIN_BYTES:
        found = f"{folder}: {free_bytes >> 20} MiB free on its disk"
        return Check("spool", Level.WARNING, found, "Make room: when the spool is full nothing is sent.")
    return Check("spool", Level.GOOD, f"{folder}: writable")


def adapter(provider: str, broken: str | None, routes: int) -> Check:
    """Judge a provider's adapter; `broken`: the sentence that says what is wrong with it."""
    if broken is not None:
        return Check(f"adapter {provider}", Level.BAD, broken.rstrip("."), "Correct the file: adapters/README.md.")
    return Check(f"adapter {provider}", Level.GOOD, f"{routes} action types")


def upstream(provider: str, host: str, unresolved: str | None) -> Check:
    """Judge whether a provider's host has an address here; `unresolved`: what the resolver said."""
    if unresolved is not None:
        found = f"{host} has no address here: {unresolved}"
        return Check(f"upstream {provider}", Level.BAD, found, "Look at the name, and at this machine's DNS.")
    return Check(f"upstream {provider}", Level.GOOD, host)


def authority(name: str, path: str, unreadable: str | None) -> Check:
    """Judge a file of certificates that are trusted; `unreadable`: why it cannot be used."""
    if unreadable is not None:
        do = "Let it name a file of PEM certificates that we may read."
        return Check(f"CA {name}", Level.BAD, f"{path}: {unreadable}", do)
    return Check(f"CA {name}", Level.GOOD, f"{path}: readable")


def secret_file(setting: str, path: str, mode: int | None, *, is_token: bool) -> Check:
    """Judge who may read a file with a secret; `mode`: its permissions, None where it cannot be looked at.

    An agent that reads an operator's token can settle its own actions: that is bad wherever it is.
    """
    what, do = f"secret {setting}", f"chmod 600 {path}, and let agents run as another user."
    if mode is None:
        return Check(what, Level.UNVERIFIABLE, f"{path}: its permissions cannot be seen", do)
    if mode & 0o004:
        level = Level.BAD if is_token else Level.WARNING
        return Check(what, level, f"{path}: mode {mode:04o}, anybody may read it, an agent too", do)
    if mode & 0o040:
        return Check(what, Level.WARNING, f"{path}: mode {mode:04o}, its group may read it", do)
    return Check(what, Level.GOOD, f"{path}: mode {mode:04o}")


def token(configured: Sequence[str], made: str | None, *, is_there: bool) -> Check:
    """Judge whether operators have a token: those that are configured, by their names, or the file that we make."""
    if configured:
        return Check("admin token", Level.GOOD, f"configured: {', '.join(configured)}")
    if made is None:
        return Check("admin token", Level.GOOD, "none, and listen.admin is off")
    return Check("admin token", Level.GOOD, f"{made}" + ("" if is_there else ": made, mode 0600, at the first start"))


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d")
