"""A governed write as it comes from an agent, and what goes back, as values."""

from collections.abc import Callable

from msgspec import Struct

from proxy.core.answers import Own
from proxy.core.http import Headers, Response


class Ask(Struct, frozen=True):
    """One governed write. `target`: the provider's raw path and query; `base`: our address as the agent wrote it."""

    provider: str
    method: str
    target: str
    headers: Headers
    body: bytes
    base: str
    url_event: str | None = None
    wait_ms: int | None = None  # Its `Prefer: wait`.


class Provided(Struct, frozen=True):
    """The provider's own answer, live or stored. `delivers`: shown to have arrived, it makes the action delivered."""

    response: Response
    headers: tuple[tuple[str, str], ...]
    action_id: str
    delivers: bool
    folded: bool = False


Answer = Own | Provided


class Refusal(Exception):
    """An answer of our own, raised where it is certain."""

    def __init__(self, own: Own) -> None:
        super().__init__(own.code.value)
        self.own = own


class Asker:
    """One request's interest in an answer: it ends when its connection does. `waited_ms`: for the provider, so far."""

    __slots__ = ("_heard", "gone", "waited_ms")

    def __init__(self) -> None:
        self.gone = False
        self.waited_ms = 0
        self._heard: list[Callable[[], None]] = []

    def hang_up(self) -> None:
        """The connection is lost."""
        if not self.gone:
            self.gone = True
            for heard in self._heard:
                heard()

    def on_gone(self, heard: Callable[[], None]) -> None:
        """Call back when it hangs up; at once where it has."""
        self._heard.append(heard)
        if self.gone:
            heard()
