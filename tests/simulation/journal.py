"""What truly happened at the providers: every execution, by whose request and under which key. Nobody in the product
sees it; the invariants do."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Deed:
    """One execution. `errand`: what the agent was about; `request`: the number of the agent's request that did it.

    `by_others`: an operator's replay, or something between that repeats requests; not a dispatch of the engine's.
    """

    at_ms: int
    key: str
    errand: str
    request: str
    object_id: str
    by_others: bool


@dataclass(slots=True)
class Journal:
    """Of all providers. A write without a key is found by its errand."""

    deeds: list[Deed] = field(default_factory=list)
    by_key: defaultdict[str, list[Deed]] = field(default_factory=lambda: defaultdict(list))
    by_errand: defaultdict[str, list[Deed]] = field(default_factory=lambda: defaultdict(list))
    by_request: defaultdict[str, list[Deed]] = field(default_factory=lambda: defaultdict(list))
    by_object: dict[str, Deed] = field(default_factory=dict)
    told: Callable[[Deed], None] = field(default=lambda deed: None)

    def write(self, deed: Deed) -> None:
        """Something was executed."""
        self.deeds.append(deed)
        self.by_key[deed.key].append(deed)
        self.by_errand[deed.errand].append(deed)
        self.by_request[deed.request].append(deed)
        self.by_object.setdefault(deed.object_id, deed)
        self.told(deed)
