"""What must always hold, checked at every commit, first byte, execution and answer. The names are the invariants'.

A person's word may be wrong: what a person settled is excepted, and nothing else is.
Longer than 300 lines: whoever asks what the simulation would notice reads one file.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.answers import Own
from proxy.core.http import Answered, Exchange, Integrity, Request, Response
from proxy.core.model import Action, Cause, Effect, NotDispatched, Proof, Source, Status, Tier
from proxy.core.records import Bucket, Slip
from proxy.engine import Answer
from proxy.ports import Stored
from tests.simulation.journal import Deed
from tests.simulation.providers import text

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

ONCE: Final = "no scope executes twice"
ONE_ERRAND: Final = "a retry of an agent is not a second execution"
CONFIRMED: Final = "nothing is confirmed that was not executed"
FAILED: Final = "nothing is failed that was executed"
RECORDED: Final = "nothing is sent before it is recorded"
IN_TIME: Final = "nothing is sent after its time"
ONE_AT_A_TIME: Final = "one dispatch of a scope at a time"
SILENT_AFTER: Final = "nothing is sent once its request was answered"
SAFE: Final = "what is called safe did nothing"
BELONGS: Final = "an answer is of its own errand"
HELD: Final = "what is held is the sum of the unresolved"
ROOM: Final = "a limit is kept"
APPENDED: Final = "evidence and dispatches are only appended"
STANDS: Final = "a settled state stands"
MARKED: Final = "evidence against a settled state marks it"
LOOKED_AFTER: Final = "the unresolved are read back or shown to a person"
SETTLES: Final = "what can be read settles"
REMEMBERED: Final = "what was heard is not lost"
QUIET: Final = "no failure of ours but those made"
ANSWERED: Final = "every request is answered"
# What nobody can promise once the store has lost what it had acknowledged (CONTRACT, "Not promised").
OF_A_STORE_THAT_REMEMBERS: Final = frozenset(
    {
        *(ONCE, ONE_ERRAND, FAILED, RECORDED, IN_TIME, ONE_AT_A_TIME, REMEMBERED, SETTLES),
        *(HELD, ROOM, APPENDED, STANDS, MARKED),  # Versions count up: after a loss the same one may name two states.
    }
)
OPEN: Final = (Status.PENDING, Status.DENIED_UNRESOLVED)
BUCKETS: Final = {
    Status.PENDING: Bucket.RESERVED,
    Status.DENIED_UNRESOLVED: Bucket.UNKNOWN,
    Status.CONFIRMED: Bucket.CONSUMED,
    Status.FAILED: Bucket.RELEASED,
}


@dataclass(slots=True)
class Sent:
    """A request of which a byte has left. `whole`: its whole answer was heard."""

    key: str
    action_id: str
    scope: tuple[str, ...]
    request: str
    harvest_ms: int
    whole: bool = False


def key_of(action: Action) -> str:
    """Return what the journal knows an action by."""
    ident = action.identity
    return ident.idempotency_key or f"{ident.provider} {ident.method} {ident.event_id}"


def scope_of(action: Action) -> tuple[str, ...]:
    """Return the scope of an action."""
    ident = action.identity
    return (ident.ledger, ident.account, ident.event_id, ident.action_type)


def by_hand(action: Action) -> bool:
    """Did a person settle it, or stand in its way?"""
    return any(e.source is Source.MANUAL for e in action.evidence)


class Truth:
    """Knows what nobody in the product does, and compares."""

    def __init__(self, world: "World") -> None:
        self.actions: dict[str, Action] = {}
        self.by_key: defaultdict[str, list[str]] = defaultdict(list)
        self._world = world
        self._hold = world.story.hold
        self._journal = world.journal
        self._sent: list[Sent] = []
        self._over: set[str] = set()  # Requests that were answered by us, so that nothing of them may leave.
        self._safe: set[str] = set()
        self._heard: dict[str, Process] = {}  # Of which action a conclusive answer was heard, and by whom.
        self._wrong: Counter[tuple[str, ...]] = Counter()  # How often a person wrongly said of a scope that it failed.

    # ── A commit ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def committed(self, slip: Slip) -> None:
        """The store has taken a commit."""
        action, old = slip.action, self.actions.get(slip.action.action_id)
        self._tell(action, old)
        if old is None:
            self.by_key[key_of(action)].append(action.action_id)
        self.actions[action.action_id] = action
        if old is not None:
            self._follows(old, action)
        self._true(action)
        if action.unresolved:
            after = action.needs_operator or action.next_readback_ms is not None
            self._hold(LOOKED_AFTER, after, lambda: action.action_id)
        awaited = [a for a in self.actions.values() if a.awaited and scope_of(a) == scope_of(action)]
        self._hold(ONE_AT_A_TIME, len(awaited) < 2, lambda: f"{action.action_id}: two are awaited")
        self._sums(action)

    def _tell(self, action: Action, old: Action | None) -> None:
        now, was = action.status.value, old.status.value if old is not None else "new"
        cause = f" {action.cause.value}" if action.cause else ""
        what = f"{key_of(action)} is {now}{cause}{' CONTRADICTED' if action.contradicted else ''}"
        if now != was:
            source = action.settled_by.source.value if action.settled_by and action.status not in OPEN else ""
            self._world.story.count(f"became: {now}{cause} {source}".rstrip(), "ledger", f"{what} {source}")
        else:
            self._world.story.tell("ledger", f"{what}, {len(action.evidence)} pieces of evidence")
        for name in ("contradicted", "duplicate_suspected", "needs_operator", "prior_execution", "askers_gone"):
            if getattr(action, name) and (old is None or not getattr(old, name)):
                self._world.story.count(f"flag: {name}", "ledger", f"{key_of(action)} {name}")
        for attempt in action.attempts[len(old.attempts) if old is not None else 0 :]:
            self._world.story.count(f"read back: {attempt.result}", "ledger", f"{key_of(action)} {attempt.result}")

    def _follows(self, old: Action, new: Action) -> None:
        ids = tuple(d.dispatch_id for d in old.dispatches)
        kept = new.evidence[: len(old.evidence)] == old.evidence
        kept = kept and tuple(d.dispatch_id for d in new.dispatches)[: len(ids)] == ids
        self._hold(APPENDED, kept and not (old.was_unknown and not new.was_unknown), lambda: key_of(new))
        again = len(new.dispatches) > len(old.dispatches)
        match old.status:
            case Status.CONFIRMED:
                stands = new.status is Status.CONFIRMED
            case Status.FAILED:
                stands = new.status is Status.FAILED or (new.status is Status.PENDING and again)
            case Status.DENIED_UNRESOLVED:
                stands = new.status is not Status.PENDING
            case _:
                stands = True
        self._hold(STANDS, stands, lambda: f"{key_of(new)}: {old.status.value} became {new.status.value}")
        fresh = new.evidence[len(old.evidence) :]
        against = {
            Status.FAILED: (Proof.ACCEPTED,),
            Status.CONFIRMED: (Proof.REJECTED, Proof.NOT_EXECUTED, Proof.NOT_SENT),
        }
        # What is said of an earlier dispatch was the proof that let the last one go.
        of_last = ("", new.dispatches[-1].dispatch_id if new.dispatches else "")
        contrary = any(e.proof in against.get(old.status, ()) and e.dispatch_id in of_last for e in fresh)
        self._hold(MARKED, not contrary or new.contradicted, lambda: key_of(new))
        if new.status is Status.FAILED and any(e.source is Source.MANUAL for e in fresh) and self._deeds(new):
            self._wrong[scope_of(new)] += 1

    def _deeds(self, action: Action) -> list[Deed]:
        """Return what was done by it. Where no key is sent, all runs go by one name: the last one has done it."""
        if self.by_key[key_of(action)][-1] != action.action_id:
            return []
        return [d for d in self._journal.by_key.get(key_of(action), ()) if not d.by_others]

    def _true(self, action: Action) -> None:
        """Compare what is settled with what truly happened."""
        if by_hand(action):
            return
        executed = bool(self._journal.by_key.get(key_of(action)))
        if action.status is Status.CONFIRMED:
            self._hold(CONFIRMED, executed, lambda: key_of(action))
        elif action.status is Status.FAILED and not action.contradicted:
            dispatched = not isinstance(action.delivery, NotDispatched)
            done = dispatched and bool(self._deeds(action))
            self._hold(FAILED, not done or self._wrong[scope_of(action)] > 0, lambda: key_of(action))

    def _sums(self, changed: Action) -> None:
        """Exposure and limits, added up anew."""
        rows: dict[tuple[str, str, str], tuple[int, int]] = {}
        for action in self.actions.values():
            if not action.unresolved or action.effect is not Effect.MONEY:
                continue
            priced = action.amount.priced
            row = (action.identity.provider, action.identity.account, (action.amount.currency or "") if priced else "")
            amount, count = rows.get(row, (0, 0))
            rows[row] = (amount + ((action.amount.minor or 0) if priced else 0), count + 1)
        exposed = self._world.ledger.exposed
        self._hold(HELD, rows == exposed, lambda: f"{exposed} is not {rows}")
        record = self._world.ledger.records[changed.action_id]
        want = Bucket.CONSUMED if changed.contradicted else BUCKETS[changed.status]
        for hold in record.holds:
            self._hold(HELD, hold.bucket is want, lambda: f"{key_of(changed)} holds in {hold.bucket}")  # noqa: B023
        for limit in self._world.limits:
            used = sum(n for place, n in self._world.ledger.used.items() if place[1] == limit.name)
            self._hold(ROOM, used <= limit.cap, lambda: f"{used} of {limit.cap}")  # noqa: B023

    # ── The wire ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def first_byte(self, process: "Process", provider: str, request: Request) -> None:
        """The first byte of a write leaves."""
        key, number = text(request, b"idempotency-key"), text(request, b"x-request")
        key = key or f"{provider} {request.method} {text(request, b'x-errand')}"
        known = [self.actions[i] for i in self.by_key.get(key, ()) if self.actions[i].dispatches]
        self._hold(RECORDED, bool(known), lambda: f"{key} is sent and not recorded")
        if not known:
            return  # The store has forgotten it.
        action = known[-1]
        last, now_ms = action.dispatches[-1], self._world.clock.store_ms()
        settled = action.status not in OPEN and not by_hand(action)
        self._hold(RECORDED, not settled, lambda: f"{key} is sent, and is {action.status.value}")
        late_ms = now_ms - last.dispatched_at_ms - (last.send_before_ms - last.dispatched_at_ms)
        self._hold(IN_TIME, late_ms <= 250, lambda: f"{key} is sent {late_ms} ms too late")
        self._hold(SILENT_AFTER, number not in self._over, lambda: f"request {number}")
        for sent in self._sent:
            if sent.scope == scope_of(action):
                over = sent.whole or (sent.action_id != action.action_id and now_ms >= sent.harvest_ms)
                self._hold(ONE_AT_A_TIME, over, lambda: f"{key} beside request {sent.request}")  # noqa: B023
        self._sent.append(Sent(key, action.action_id, scope_of(action), number, last.harvest_ms))
        self._world.story.tell(process.name, f"the first byte of request {number} leaves, key {key}")

    def heard(self, process: "Process", provider: str, request: Request, exchange: Exchange) -> None:
        """The answer to a write has come to the process that sent it."""
        if not isinstance(exchange, Answered):
            return
        number = text(request, b"x-request")
        sent = next((s for s in reversed(self._sent) if s.request == number), None)
        if sent is None:
            return
        sent.whole = exchange.integrity in (Integrity.WHOLE, Integrity.TRAILING)
        deed = self._journal.by_request.get(number)
        marked = any(n.lower() in (b"request-id", b"ratelimit-limit") for n, _ in exchange.response.headers)
        if exchange.integrity is Integrity.WHOLE and exchange.response.status == 200 and marked and deed:
            self._heard[sent.action_id] = process

    def executed(self, deed: Deed) -> None:
        """A provider has done something."""
        errand = self._world.errands[deed.errand]
        self._world.story.tell("provider", f"does {deed.object_id} for {deed.errand}, request {deed.request}")
        if deed.by_others:
            return
        for action in (self.actions[i] for i in self.by_key.get(deed.key, ())):
            if action.status is Status.FAILED and by_hand(action):
                self._wrong[scope_of(action)] += 1
        mine = [d for d in self._journal.by_key[deed.key] if not d.by_others]
        self._hold(ONCE, len(mine) < 2 or self._wrong_of(deed.key) > 0, lambda: f"{deed.key}: {len(mine)} times")
        known = [self.actions[i] for i in self.by_key.get(deed.key, ())]
        scope = scope_of(known[-1]) if known else ()
        in_scope = {key_of(a) for a in self.actions.values() if scope_of(a) == scope}
        times = sum(not d.by_others for key in sorted(in_scope) for d in self._journal.by_key.get(key, ()))
        wrong = self._wrong[scope]
        self._hold(ONCE, times <= 1 + wrong, lambda: f"{deed.errand}: {times} times in its scope")
        if known and not by_hand(known[-1]) and not known[-1].contradicted:
            self._hold(FAILED, known[-1].status is not Status.FAILED, lambda: f"{deed.key} is done after it failed")
        self._hold(SAFE, deed.request not in self._safe, lambda: f"request {deed.request}")
        of_errand = [d for d in self._journal.by_errand[deed.errand] if not d.by_others]
        all_wrong = sum(self._wrong.values())
        once = len(of_errand) < 2 or not errand.strict or all_wrong > 0
        self._hold(ONE_ERRAND, once, lambda: f"{deed.errand}: {len(of_errand)} times")

    def _wrong_of(self, key: str) -> int:
        return sum(self._wrong[scope_of(self.actions[i])] for i in self.by_key.get(key, ()))

    # ── Answers ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def answered(self, errand: str, number: str, answer: Answer) -> None:
        """A request was answered."""
        self._over.add(number)
        retry = dict(answer.headers).get("Doubtless-Retry")
        if retry == "safe":
            done = self._journal.by_request.get(number)
            self._hold(SAFE, not done, lambda: f"request {number}")
            self._safe.add(number)
        if isinstance(answer, Own):
            self._world.story.count(f"answer: {answer.code.value}", errand, f"request {number}: {answer.code.value}")
            return
        replayed = dict(answer.headers).get("Idempotent-Replayed") == "true"
        name = f"answer: {'stored ' if replayed else ''}{answer.response.status}"
        self._world.story.count(name, errand, f"request {number}: {name}")
        deed = self._of(answer.response)
        self._hold(BELONGS, deed is None or deed.errand == errand, lambda: f"request {number} of {errand}")

    def _of(self, response: Response) -> Deed | None:
        return next((d for i, d in self._journal.by_object.items() if f'"{i}"'.encode() in response.body), None)

    def failed(self, who: str, what: str, failure: BaseException) -> None:
        """Something of ours failed that was not made to."""
        self._hold(QUIET, False, lambda: f"{who} {what}: {failure!r}")

    def gone(self, process: "Process") -> None:
        """A process is dead: what it only had in memory is lost."""
        self._heard = {i: heard for i, heard in self._heard.items() if heard is not process}

    def forgotten(self) -> None:
        """The store has lost some commits: what it holds now is all that is known."""
        self.actions = {i: record.stored.action for i, record in self._world.ledger.records.items()}
        self.by_key.clear()
        for action in self.actions.values():
            self.by_key[key_of(action)].append(action.action_id)

    # ── After everything has healed ───────────────────────────────────────────────────────────────────────────────────

    def unsettled(self) -> list[Action]:
        """Return what must settle still."""
        return [a for a in self.actions.values() if a.status is Status.PENDING or self._must_settle(a)]

    def _must_settle(self, action: Action) -> bool:
        if not action.unresolved or action.cause is Cause.KEY_REUSED or action.duplicate_suspected:
            return False
        executed = bool(self._deeds(action))  # A replay may come too late for the window of what a message equals.
        readable = action.tier in (Tier.FULL, Tier.RECONCILABLE) and not self._ambiguous(action)
        return (executed and readable) or action.action_id in self._heard or not action.needs_operator

    def _ambiguous(self, action: Action) -> bool:
        """Did it happen twice, or did others of ours send an equal message? Then a person decides."""
        return len(self._journal.by_key.get(key_of(action), ())) > 1 or any(
            other.identity.content == action.identity.content and other.action_id != action.action_id
            for other in self.actions.values()
            if action.identity.content
        )

    def healed(self, stored: Stored) -> None:
        """State of one action what must hold in the end."""
        action = stored.action
        self._hold(STANDS, action == self.actions[action.action_id], lambda: "the ledger holds something else")
        self._hold(SETTLES, action.status is not Status.PENDING, lambda: f"{key_of(action)} is still in flight")
        if action.action_id in self._heard and not by_hand(action):
            known = action.status is Status.CONFIRMED or action.contradicted or action.cause is Cause.KEY_REUSED
            self._hold(REMEMBERED, known, lambda: f"{key_of(action)} was answered, and is {action.status.value}")
        self._hold(SETTLES, not self._must_settle(action), lambda: f"{key_of(action)} stays unknown")
        if self._deeds(action) and not by_hand(action):
            fine = action.status is Status.CONFIRMED or action.unresolved or action.contradicted
            self._hold(FAILED, fine or self._wrong_of(key_of(action)) > 0, lambda: key_of(action))
