"""Pages of our own on an agent's port: the state of an action. Read-only: nothing here can change anything."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.core import answers, view
from proxy.core.adapter import Adapter
from proxy.core.answers import Code
from proxy.core.http import Headers, values
from proxy.core.model import Status
from proxy.engine import Asker
from proxy.engine.asking import Refusal
from proxy.ports import Clock, Store, Stored, StoreUnavailable

POLL_MS: Final = 100
_OPEN: Final = (Status.PENDING, Status.DENIED_UNRESOLVED)


class Pages:
    """What is below `/_doubtless/`. `wait_ms`: how long a `Prefer: wait` may wait."""

    def __init__(self, store: Store, adapters: Mapping[str, Adapter], clock: Clock, wait_ms: int) -> None:
        self._store = store
        self._adapters = adapters
        self._clock = clock
        self._wait_ms = wait_ms
        self._hurried = False

    def hurry(self) -> None:
        """Let nobody wait any longer: we are about to close."""
        self._hurried = True

    async def show(self, method: str, path: str, base: str, *, wait_ms: int, asker: Asker) -> bytes:
        """Return a page. Raises Refusal: there is none, or it cannot be read now."""
        kind, _, action_id = path.partition("?")[0].partition("/")
        if method not in ("GET", "HEAD") or kind != "actions" or not action_id:
            raise Refusal(answers.own(Code.UNKNOWN_PROVIDER, _NO_PAGE))
        try:
            stored = await self._state(action_id, min(wait_ms, self._wait_ms), asker)
        except StoreUnavailable:
            raise Refusal(answers.own(Code.STORE_UNAVAILABLE, _NO_STORE)) from None
        if stored is None:
            raise Refusal(answers.own(Code.UNKNOWN_PROVIDER, _NO_ACTION))
        adapter = self._adapters.get(stored.action.identity.provider)
        return msgspec.json.encode(view.doubtless(stored.action, adapter, base))

    async def _state(self, action_id: str, wait_ms: int, asker: Asker) -> Stored | None:
        """Return the action; one that is in flight or unknown once it is something else, or when time is up."""
        until_ms = self._clock.monotonic_ms() + wait_ms
        first = stored = await self._store.get(action_id)
        while first is not None and stored is not None:
            left_ms = until_ms - self._clock.monotonic_ms()
            status = stored.action.status
            if self._hurried or asker.gone or left_ms <= 0 or status not in _OPEN or status is not first.action.status:
                break
            await asyncio.sleep(min(POLL_MS, left_ms) / 1000)
            stored = await self._store.get(action_id)
        return stored


def prefer_wait_ms(headers: Headers) -> int | None:
    """Return the `wait` preference (RFC 7240, section 4.3), in milliseconds."""
    for value in values(headers, b"prefer"):
        for part in value.split(b","):
            name, _, seconds = part.partition(b";")[0].partition(b"=")
            if name.strip().lower() == b"wait" and seconds.strip().isdigit():
                return min(int(seconds.strip()[:6]), 86_400) * 1000
    return None


def applied(wait_ms: int | None) -> tuple[tuple[str, str], ...]:
    """Return the header that says that the preference was heard (RFC 7240, section 3)."""
    return () if wait_ms is None else (("Preference-Applied", f"wait={wait_ms // 1000}"),)


_NO_PAGE = (
    "there is no such page. GET /_doubtless/actions/<action_id> shows the state of an action; nothing here changes it."
)
_NO_ACTION = "there is no action of this ID. Nothing was sent."
_NO_STORE = "the store cannot be read now. It is safe to try again."
