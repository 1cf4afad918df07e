"""What happened in a run: told in lines, counted by name, and digested so that two runs can be compared."""

import hashlib
from collections import Counter
from collections.abc import Callable


class Broken(AssertionError):
    """What must always hold did not. `name`: of the invariant."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


class Story:
    """One run's story. `say` hears each line as it is told; without it the lines are only digested."""

    def __init__(self, now_ms: Callable[[], int], say: Callable[[str], None] | None = None) -> None:
        self.tally: Counter[str] = Counter()
        self.broken: Broken | None = None
        self.waived: frozenset[str] = frozenset()  # Invariants that are not promised in this run.
        self._now_ms = now_ms
        self._say = say
        self._digest = hashlib.blake2b(digest_size=16)

    def tell(self, who: str, what: str) -> None:
        """Tell something."""
        line = f"{self._now_ms() / 1000:9.3f} {who:<14} {what}"
        self._digest.update(line.encode())
        if self._say is not None:
            self._say(line)

    def count(self, name: str, who: str, what: str) -> None:
        """Tell something that belongs into the tally under a name."""
        self.tally[name] += 1
        self.tell(who, what)

    def hold(self, name: str, holds: bool, what: Callable[[], str]) -> None:
        """State an invariant. The first that is broken ends the run, whoever catches what is raised here."""
        if not holds and self.broken is None and name not in self.waived:
            self.broken = Broken(name, what())
            self.tell("BROKEN", str(self.broken))
            raise self.broken

    @property
    def digest(self) -> str:
        """Return what is equal exactly where the story is."""
        return self._digest.hexdigest()
