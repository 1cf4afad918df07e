"""Agents as language-model frameworks make them: they repeat what failed, in the same or other words, and hang up."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from proxy.edges.clock import SystemClock
from tests.app.line import Heard, Line, request
from tests.chaos.dice import Random
from tests.chaos.story import Errand, Told
from tests.chaos.world import Sidecar

STRIPE_SECRET: Final = "sk_test_" + "chaos" * 5
RESEND_SECRET: Final = "re_full_access_chaos"
KINDS: Final = ("refund", "refund", "refund", "charge", "mail")
# How a caller names its errand. `sdk`: no name, and a key that the SDK makes for each call; `none`: not even that.
NAMINGS: Final = ("event", "event", "sdk", "sdk", "none", "own-key")
PATIENT_S: Final = 5.0
_wall = SystemClock().wall_ms


@dataclass(frozen=True)
class Manner:
    """How one agent goes about one errand."""

    kind: str
    naming: str
    rewords: bool
    tries: int
    hangs_up: float  # How often, of its tries.
    obeys: bool  # Does it stop where it is told to?
    doubles: bool  # Does the framework call the tool twice at once? Likewise only with a name.
    checks: bool  # Does it ask again though it was done? Only with a name for it: else it would mean a second one.
    home: int | None  # The sidecar it keeps to; None: any, as behind a balancer.


def manner(rng: Random, sidecars: int) -> Manner:
    """Choose."""
    naming = rng.choice(NAMINGS)
    return Manner(
        kind=rng.choice(KINDS),
        naming=naming,
        rewords=rng.random() < 0.3,
        tries=rng.randint(2, 9),
        hangs_up=rng.choice((0.0, 0.0, 0.2, 0.6)),
        obeys=rng.random() < 0.4,
        doubles=naming in ("event", "own-key") and rng.random() < 0.2,
        checks=naming in ("event", "own-key") and rng.random() < 0.4,
        home=rng.randrange(sidecars) if rng.random() < 0.5 else None,
    )


class Agent:
    """Runs errands one after the other."""

    def __init__(
        self, rng: Random, sidecars: "tuple[Sidecar, ...]", charge: Callable[[str, int], Awaitable[str]]
    ) -> None:
        self._rng = rng
        self._sidecars = sidecars
        self._charge = charge

    async def run(self, name: str) -> Errand:
        """Do one errand, until it is done, given up, or forbidden."""
        rng, way = self._rng, manner(self._rng, len(self._sidecars))
        if way.naming in ("sdk", "none") and way.kind == "charge":
            way = replace(
                way, kind="refund"
            )  # Without a customer a charge has no target: nothing names a reworded one.
        event = name if way.naming == "event" else None
        errand = Errand(name, f"{way.kind}, {way}", event or (f"own-{name}" if way.naming == "own-key" else None))
        amount = rng.randrange(500, 25_000)
        charge = await self._charge(f"ch_{name}", amount + rng.randrange(10_000)) if way.kind == "refund" else ""
        key, done = self._key(name, way), False
        for nth in range(way.tries):
            if way.naming == "sdk" and rng.random() < 0.6:  # A new call; else the SDK's own retry.
                key = self._key(name, way)
            words = rng.randrange(1_000) if way.rewords and nth else 0
            sidecar = rng.choice(self._sidecars) if way.home is None else self._sidecars[way.home]
            data = self._request(way, name, event, key, charge, amount, words)
            other = [self._try(errand, rng.choice(self._sidecars), data, way)] if way.doubles and not nth else []
            told, *others = await asyncio.gather(self._try(errand, sidecar, data, way), *other)
            errand.told.extend([told, *others])
            done = done or (told.status is not None and told.status < 300)
            if (done and not way.checks) or (told.retry == "never" and way.obeys):
                break
            await asyncio.sleep(rng.choice((0.0, 0.05, 0.3, 1.0)) * rng.random())
        return errand

    def _key(self, name: str, way: Manner) -> str | None:
        match way.naming:
            case "sdk":
                return str(UUID(int=self._rng.getrandbits(128), version=4))
            case "own-key":
                return f"own-{name}"
            case _:
                return None

    def _request(
        self, way: Manner, name: str, event: str | None, key: str | None, charge: str, amount: int, words: int
    ) -> bytes:
        own = {} if event is None else {"Doubtless-Event-Id": event}
        own |= {} if key is None else {"Idempotency-Key": key}
        if way.kind == "mail":
            subject = "Your refund" + (f" ({words})" if words else "")
            mail: dict[str, Any] = {"from": "Acme <hello@acme.example>", "to": [f"{name}@customer.example"]}
            body = json.dumps(mail | {"subject": subject, "html": f"<p>On its way: {amount / 100:.2f}</p>"}).encode()
            own |= {"Authorization": f"Bearer {RESEND_SECRET}", "Content-Type": "application/json"}
            return request("POST", "/resend/emails", body=body, headers=own)
        own |= {"Authorization": f"Bearer {STRIPE_SECRET}"}
        note = {"metadata[note]": f"In other words {words}"} if words else {}
        if way.kind == "charge":
            form = {"amount": amount, "currency": "usd", "source": "tok_visa", "metadata[for]": name}
            return request("POST", "/stripe/v1/charges", form=form | note, headers=own)
        form = {"charge": charge, "amount": amount}
        return request("POST", "/stripe/v1/refunds", form=form | note, headers=own)

    async def _try(self, errand: Errand, sidecar: Sidecar, data: bytes, way: Manner) -> Told:
        """Ask once, on a connection of its own."""
        asked_ms = _wall()
        hangs_up = self._rng.random() < way.hangs_up
        patience_s = self._rng.choice((0.01, 0.05, 0.2, 1.0)) * self._rng.random() if hangs_up else PATIENT_S
        resets = self._rng.random() < 0.3
        heard: Heard | None = None
        try:
            async with await Line.open(sidecar.port) as line:
                try:
                    await line.send(data)
                    async with asyncio.timeout(patience_s):
                        await line.arrived()  # What has been read has arrived, whatever its reader then does with it.
                    heard = await line.hear()
                finally:
                    if heard is None and resets:
                        line.reset()
            how = "answered"
        except ConnectionRefusedError:
            how = "refused"
        except TimeoutError:
            how = "hung up" if hangs_up else "out of patience"
        except (EOFError, OSError):
            how = "cut"
        told = Told(errand.name, asked_ms, _wall(), sidecar.name, how)
        return told if heard is None else _with(told, heard)


def _with(told: Told, heard: Heard) -> Told:
    try:
        body = json.loads(heard.body)
    except ValueError:
        body = {}
    own = b'"doubtless"' in heard.body
    return replace(
        told,
        status=heard.status,
        code=body["error"]["code"] if own else None,
        retry=heard.field("Doubtless-Retry"),
        says=heard.field("Doubtless-Status"),
        action_id=heard.field("Doubtless-Action-Id"),
        object_id=body.get("id") if isinstance(body, dict) else None,
    )
