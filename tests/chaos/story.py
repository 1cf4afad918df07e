"""What is known at the end of a run: the provider's own journal, the store's actions, and what agents were told."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_MARK: Final = re.compile(r"errand-\d+")


@dataclass(frozen=True)
class Arrival:
    """A write that reached the provider, as its journal has it. `errand`: what the body was for."""

    at_ms: int
    provider: str
    key: str | None
    errand: str
    executed: bool
    status: int | None
    object_id: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class Told:
    """One try of an agent's, and what it was told; `status` None where it heard nothing whole, and `how` says why."""

    errand: str
    asked_ms: int
    ended_ms: int
    where: str
    how: str
    status: int | None = None
    code: str | None = None
    retry: str | None = None
    says: str | None = None
    action_id: str | None = None
    object_id: str | None = None

    @property
    def label(self) -> str:
        """How it is counted."""
        if self.status is None:
            return self.how
        return f"{self.status} {self.code}" if self.code else str(self.status)


@dataclass(frozen=True)
class Errand:
    """One thing that somebody wants done once."""

    name: str
    kind: str
    event: str | None
    told: list[Told] = field(default_factory=list)


@dataclass(frozen=True)
class Evidence:
    """Everything that the judge looks at."""

    arrivals: Sequence[Arrival]
    actions: Sequence[Mapping[str, Any]]
    errands: Sequence[Errand]
    exposure: Sequence[Mapping[str, Any]]
    limits: Sequence[Mapping[str, Any]] = ()


def arrivals_of(journal: Sequence[Mapping[str, Any]]) -> list[Arrival]:
    """Read the writes out of the stand-in's journal."""
    return [
        Arrival(
            at_ms=entry["arrived_ms"],
            provider=entry["provider"],
            key=entry["key"],
            errand=found[0] if (found := _MARK.search(entry["body"])) else "",
            executed=entry["executed"],
            status=entry["status"],
            object_id=entry["object_id"],
            fault=entry["fault"],
        )
        for entry in journal
        if entry["method"] not in ("GET", "HEAD")
    ]
