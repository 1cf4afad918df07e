"""The first commit of a request, and what a second one gets: create, or look at what stands in the way and decide.

Longer than 300 lines because the ways of one request belong side by side: whoever changes a row of CONTRACT 2.2 reads
`core/second` and this.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, assert_never
from weakref import WeakValueDictionary

from proxy.core import answers, identity
from proxy.core.answers import Code
from proxy.core.events import Folded, Lost, Redispatched, Suspected, Unsendable
from proxy.core.http import Answered, Integrity, Response, Unsent
from proxy.core.lifecycle import step
from proxy.core.limits import Undeterminable
from proxy.core.model import Action, Cause, Status
from proxy.core.readback import fill
from proxy.core.second import Asking, Decision, Verb, decide
from proxy.engine.answering import Answering
from proxy.engine.applying import RESPONSE, Applier
from proxy.engine.asking import Answer, Asker, Refusal
from proxy.engine.dispatching import EVENT_ENCODER, RESPONSE_DECODER, Live, Outcome
from proxy.engine.drafting import Draft
from proxy.engine.making import Maker, twins
from proxy.engine.notebook import Notebook
from proxy.engine.pricing import Reader, credential_headers
from proxy.engine.pulse import Pulse
from proxy.engine.sending import Coming, Draining, Sender
from proxy.ports import Committed, Conflict, Exhausted, Observation, Retired, Stored, StoreUnavailable, Vault

ROUNDS: Final = 64  # Each round somebody else's write went through.
READ_MS: Final = 10_000
SLACK_MS: Final = 5_000
HANG_UP_HEARD_MS: Final = 100
LOOK_AGAIN_MS: Final = 500
SHOWN_AFTER_MS: Final = 500  # A beat that came sooner may have been under way while its sender died.


class _Path:
    """What a request has been through on its way to an answer."""

    def __init__(self) -> None:
        self.prior: Stored | None = None  # The latest run, which a new one is to follow.
        self.folded: str | None = None  # The action that it was taken for.
        self.names_latest = False  # Its `Doubtless-Retry-Of` names the latest run.
        self.alive_until_ms = 0  # Another instance whose lease ends no sooner has shown, since we asked, that it lives.
        self.looks_until_ms = 0


class Admission:
    """Decides what a request becomes: a new action, a new dispatch, or an answer that is there already."""

    def __init__(
        self,
        applier: Applier,
        maker: Maker,
        sender: Sender,
        answering: Answering,
        reader: Reader,
        vault: Vault,
        notebook: Notebook,
        pulse: Pulse,
    ) -> None:
        self._applier = applier
        self._store = applier.store
        self._settings = applier.settings
        self._maker = maker
        self._sender = sender
        self._answering = answering
        self._reader = reader
        self._vault = vault
        self._notebook = notebook
        self._pulse = pulse
        self._folding: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def admit(self, draft: Draft, asker: Asker) -> Answer:
        """Carry a request to its answer. Raises Refusal and StoreUnavailable; then nothing of it was sent."""
        path = _Path()
        standing = await self._named(draft, path) if draft.retry_of is not None else None
        for _ in range(ROUNDS):
            if standing is None:
                first = await self._create(draft, path, asker)
                if not isinstance(first, Conflict):
                    return first
                standing = first
            answer = await self._second(draft, path, standing, asker)
            if answer is not None:
                return answer
            named = draft.retry_of is not None and path.prior is None
            standing = await self._named(draft, path) if named else None
        raise StoreUnavailable("overtaken again and again")

    async def _named(self, draft: Draft, path: _Path) -> Conflict:
        """Find the action that `Doubtless-Retry-Of` names. Raises Refusal: it is unknown, or of another scope."""
        stored = await self._store.get(draft.retry_of or "")
        ident = None if stored is None else stored.action.identity
        wanted = (draft.ask.provider, draft.account, draft.action_type)
        if (
            stored is None
            or ident is None
            or (ident.provider, ident.account, ident.action_type) != wanted
            or draft.event not in (None, ident.event_id)
        ):
            raise Refusal(answers.own(Code.RETRY_OF_INVALID, _RETRY_OF_INVALID))
        scope = self._maker.scope_of(draft, ident.event_id)
        latest_id = next(iter(await self._store.find("scope", scope)), ident.action_id)
        latest = stored if latest_id == ident.action_id else await self._store.get(latest_id)
        if latest is None:
            raise StoreUnavailable("the latest run is gone")
        # Whoever names a run that has a successor makes a second request to that successor.
        path.names_latest = latest_id == ident.action_id
        return Conflict(latest.action, latest.version, self._applier.clock.store_ms(), "scope")

    # ── A first request ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _create(self, draft: Draft, path: _Path, asker: Asker) -> Answer | Conflict:
        begun = None
        with self._sender.coming(_aimed(draft)) as coming:
            try:
                made = await self._maker.create(draft, path.prior, path.alive_until_ms)
            except Undeterminable:
                return await self._refused(draft, path, Cause.AMOUNT_UNDETERMINABLE)
            assert made.slip is not None
            if made.slip.lookups:
                await self._turn(coming, asker)
            with self._sender.cutting.off(Draining()), self._expected(made.action) as live:
                result = await self._applier.commit(made.slip)
                if isinstance(result, Committed):
                    begun = Stored(made.action, result.version)
                    if result.stale is not None:
                        begun = await self._after_stale(begun)
                    self._applier.meter.action(begun.action)
                    self._sender.start(live, begun, made)
        if begun is not None:
            return await self._first_answer(draft, live, begun, asker, path)
        self._sender.forget(live)
        if isinstance(result, Conflict):
            return result
        if isinstance(result, Retired):
            return self._retired(draft, made.action, result)
        return await self._refused(draft, path, Cause.LIMIT_EXHAUSTED)

    async def _turn(self, coming: Coming, asker: Asker) -> None:
        """Wait until what came before at the same target is told apart. With nothing awaited since, it is committed.

        Raises Refusal: the request lay in a stopped process, and its agent gave it up. It may have asked another
        instance since, and have been answered: without an event ID nothing would tell.
        """
        if self._pulse.waking:
            await asyncio.sleep(HANG_UP_HEARD_MS / 1000)  # That it hung up is read after what it had asked.
            await asyncio.sleep(0)  # A loop that is late may take up its timers before it reads.
        await self._sender.until_told(coming)
        if self._pulse.waking and asker.gone:
            raise Refusal(answers.own(Code.OVERLOADED, _GIVEN_UP))

    @contextmanager
    def _expected(self, action: Action) -> Iterator[Live]:
        """Register a dispatch while it is being committed.

        Whatever ends that early, nothing of it is sent; and as the commit may have been applied, that is noted.
        """
        live = self._sender.expect(action.action_id)
        try:
            yield live
        except BaseException:
            self._sender.forget(live)
            event = Unsendable(action.dispatches[-1].dispatch_id, Unsent.CANCELLED)
            self._notebook.note(Observation(action.action_id, EVENT_ENCODER.encode(event)))
            raise

    async def _after_stale(self, stored: Stored) -> Stored:
        """An unresolved action of the same payload had outlived its folding: this one may be its double."""
        marked = await self._applier.apply(stored.action.action_id, Suspected(), known=stored)
        return marked if isinstance(marked, Stored) else stored

    async def _first_answer(self, draft: Draft, live: Live, stored: Stored, asker: Asker, path: _Path) -> Answer:
        # A dispatch resolves by its own answer deadline; the margin guards against a bug of ours.
        got = await self._sender.outcome(live, asker, self._settings.answer_ms + SLACK_MS)
        if got is None:
            got = Outcome(self._overdue((await self._sender.as_it_stands(stored)).action))
        folded = path.folded == got.action.action_id
        return self._answering.of_outcome(draft, got.action, got.response, replayed=False, folded=folded)

    def _overdue(self, action: Action) -> Action:
        """From the answer deadline on the outcome is unknown for everyone, whatever keeps us from recording that."""
        event = Lost(action.dispatches[-1].dispatch_id, Cause.TIMEOUT)
        return step(action, event, self._applier.moment(), self._applier.rules(action)).action

    async def _refused(self, draft: Draft, path: _Path, cause: Cause) -> Answer | Conflict:
        """Record what may not be sent, and say so."""
        slip = self._maker.refuse(draft, path.prior, cause)
        result = await self._applier.commit(slip)
        if isinstance(result, Conflict):
            return result
        if isinstance(result, Retired):
            return self._retired(draft, slip.action, result)
        self._applier.meter.action(slip.action)
        return self._answering.own(Code(cause.value), slip.action, draft)

    def _retired(self, draft: Draft, never_made: Action, first: Retired) -> Answer:
        """Answer a request whose first one has left the store."""
        self._applier.meter.blocked(never_made)
        return self._answering.retired(draft, first.outcome)

    # ── A second request ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _second(self, draft: Draft, path: _Path, standing: Conflict, asker: Asker) -> Answer | None:
        """Answer a request that an action stands in the way of; None: it must be looked at anew."""
        stored = Stored(standing.current, standing.version)
        if standing.via == "elsewhere" and await self._may_look_again(path, standing, asker):
            return None
        if standing.via in ("target", "elsewhere"):
            self._applier.meter.blocked(stored.action)
            shown = self._same_credential(draft, stored.action)
            return self._answering.own(Code.SUSPECTED_DUPLICATE, stored.action, draft, shown=shown)
        if standing.via == "payload" and path.folded != stored.action.action_id:
            folded = await self._fold(draft, stored)
            if folded is None:
                return None
            stored, path.folded = folded, folded.action.action_id
        if standing.via in ("alias", "payload") and stored.action.status is Status.FAILED:
            stored = await self._latest(stored)
        while True:
            decision = decide(stored.action, self._asking(draft, stored.action, path))
            was_folded = path.folded == stored.action.action_id
            if decision.verb is not Verb.WAIT:
                if was_folded and stored.action.status is Status.PENDING:
                    self._sender.left(stored.action.action_id)
                return await self._decided(draft, path, stored, decision, asker)
            within_ms = self._settings.answer_ms
            if draft.ask.wait_ms is not None:
                within_ms = min(within_ms, draft.ask.wait_ms)
            got = await self._sender.settled(stored, asker, within_ms, folded=was_folded)
            if isinstance(got, Outcome) or got.action.status is Status.PENDING:
                found = got if isinstance(got, Outcome) else Outcome(got.action)
                return self._waited(draft, path, found)
            if got.action.cause is Cause.NOT_SENT:
                return self._waited(draft, path, Outcome(got.action))
            if got.action.cause is Cause.NOT_EXECUTED and got.action.answer_kept:
                return await self._replay(
                    draft, path, got.action
                )  # It waited for this answer, not for a try of its own.
            stored = got

    async def _may_look_again(self, path: _Path, standing: Conflict, asker: Asker) -> bool:
        """Another instance has something at the same target under way, and may be dead: then its asker is gone.

        Nobody can tell yet. It shows that it lives by its next beat, before which it told who had hung up; or it does
        not, and what it had in flight becomes unknown.
        """
        clock = self._applier.clock
        if not path.looks_until_ms:
            path.alive_until_ms = standing.now_ms + self._settings.lease_ms + SHOWN_AFTER_MS
            path.looks_until_ms = clock.monotonic_ms() + self._settings.answer_ms
        if asker.gone or clock.monotonic_ms() >= path.looks_until_ms:
            return False
        await asyncio.sleep(LOOK_AGAIN_MS / 1000)
        asker.waited_ms += LOOK_AGAIN_MS
        return True

    async def _fold(self, draft: Draft, stored: Stored) -> Stored | None:
        """Take a request for the action; None where the record was overtaken. One at a time: a burst is no race."""
        action_id = stored.action.action_id
        turn = self._folding.get(action_id)
        if turn is None:
            turn = self._folding[action_id] = asyncio.Lock()
        with self._sender.cutting.off(Draining()):
            async with turn:
                event = Folded(draft.alias[0] if draft.alias else None)
                folded = await self._applier.apply(action_id, event, known=self._applier.newest(stored), once=True)
        return folded if isinstance(folded, Stored) else None

    async def _latest(self, stored: Stored) -> Stored:
        """Return the latest run of an action's scope: only a failed action has a successor."""
        ident = stored.action.identity
        scope = identity.scope(ident.ledger, ident.account, ident.event_id, ident.action_type)
        latest_id = next(iter(await self._store.find("scope", scope)), ident.action_id)
        if latest_id == ident.action_id:
            return stored
        return await self._store.get(latest_id) or stored

    def _waited(self, draft: Draft, path: _Path, found: Outcome) -> Answer:
        """Give a request that waited the first one's answer."""
        folded = path.folded == found.action.action_id
        if found.response is None and found.action.status in (Status.PENDING, Status.DENIED_UNRESOLVED):
            self._applier.meter.blocked(found.action)
        return self._answering.of_outcome(draft, found.action, found.response, replayed=True, folded=folded)

    def _asking(self, draft: Draft, first: Action, path: _Path) -> Asking:
        route = self._applier.adapters[first.identity.provider].route(first.identity.route)
        return Asking(
            same_payload=first.identity.payload in draft.payloads,
            same_credential=self._same_credential(draft, first),
            retry_of=path.names_latest and draft.retry_of == first.action_id,
            now_ms=self._applier.clock.store_ms(),
            readable=route.same_shape and bool(route.object_path),
        )

    def _same_credential(self, draft: Draft, first: Action) -> bool:
        theirs = first.identity.credential
        if theirs in draft.credentials:
            return True
        groups = self._settings.same_credentials.get(draft.ask.provider, ())
        return any(theirs in group and not group.isdisjoint(draft.credentials) for group in groups)

    async def _decided(
        self, draft: Draft, path: _Path, stored: Stored, decision: Decision, asker: Asker
    ) -> Answer | None:
        match decision.verb:
            case Verb.REFUSE:
                return self._refuse(draft, path, stored.action, decision)
            case Verb.REPLAY:
                return await self._replay(draft, path, stored.action)
            case Verb.READ:
                return await self._read(draft, path, stored.action)
            case Verb.SEND_AGAIN:
                return await self._again(draft, path, stored, asker)
            case Verb.NEW_RUN:
                path.prior = stored
                return None
            case Verb.WAIT:
                return None
            case _:
                assert_never(decision.verb)

    def _refuse(self, draft: Draft, path: _Path, first: Action, decision: Decision) -> Answer:
        assert decision.code is not None
        self._applier.meter.blocked(first)
        names = self._differing(draft, first) if decision.code is Code.PAYLOAD_MISMATCH else []
        return self._answering.own(
            decision.code,
            first,
            draft,
            shown=decision.open,
            folded=path.folded == first.action_id,
            names=names,
            until_ms=decision.until_ms,
        )

    def _differing(self, draft: Draft, first: Action) -> "list[str]":
        """Name the fields whose values differ; the values stay where they are."""
        theirs = dict(first.identity.fields)
        ours = dict(draft.body.fields(draft.match.route.volatile))
        ours["(path)"] = f"{draft.ask.method} {draft.ask.target}".encode()
        out = []
        for name in sorted({*theirs, *ours}):
            digests = {d[:16] for d in self._vault.digests(ours[name])} if name in ours else set()
            if theirs.get(name) not in digests:
                out.append(name[:64])
        return out[:16]

    async def _replay(self, draft: Draft, path: _Path, first: Action) -> Answer:
        """Give the stored response."""
        sealed = await self._store.kept(first.action_id, RESPONSE)
        opened = None if sealed is None else self._vault.open(sealed, f"{first.action_id}:{RESPONSE}")
        if opened is None:  # No key of ours opens it any more.
            code = Code.RETRY_OF_REQUIRED if first.status is Status.FAILED else Code.ALREADY_SETTLED
            return self._answering.own(Code.OUTCOME_UNKNOWN if first.unresolved else code, first, draft)
        self._applier.meter.stored_answer(first.identity.provider)
        response = RESPONSE_DECODER.decode(opened)
        folded = path.folded == first.action_id
        return self._answering.provided(first, response, replayed=True, folded=folded)

    async def _read(self, draft: Draft, path: _Path, first: Action) -> Answer:
        """Read the object that the action made, where it has the shape of the first response."""
        adapter = self._applier.adapters[first.identity.provider]
        route = adapter.route(first.identity.route)
        target = fill(route.object_path, {**first.identity.facts, "object": first.object_ids[0]})
        folded = path.folded == first.action_id
        response = await self._object(draft, first, target) if target is not None else None
        if response is None:
            return self._answering.own(Code.ALREADY_SETTLED, first, draft, folded=folded)
        self._applier.meter.stored_answer(first.identity.provider)
        return self._answering.provided(first, response, replayed=True, folded=folded)

    async def _object(self, draft: Draft, first: Action, target: str) -> Response | None:
        adapter = self._applier.adapters[first.identity.provider]
        headers = credential_headers(draft.ask.headers, adapter)
        answered = await self._reader.get(first.identity.provider, target, headers, READ_MS)
        whole = isinstance(answered, Answered) and answered.integrity is Integrity.WHOLE
        return answered.response if answered is not None and whole and answered.response.status == 200 else None

    async def _again(self, draft: Draft, path: _Path, stored: Stored, asker: Asker) -> Answer | None:
        """Send an action again that provably executed nothing: the same key, a new dispatch."""
        begun = None
        with self._sender.coming(_aimed(draft)) as coming:
            try:
                made = await self._maker.again(draft, stored)
            except Undeterminable:
                return self._answering.own(Code.AMOUNT_UNDETERMINABLE, stored.action, draft)
            event = Redispatched(made.action.dispatches[-1], made.action.amount, made.action.identity)
            if lookups := twins(draft):
                await self._turn(coming, asker)
            with self._sender.cutting.off(Draining()), self._expected(made.action) as live:
                result = await self._applier.apply(
                    stored.action.action_id,
                    event,
                    known=stored,
                    keep=made.keep,
                    reserve=made.reserve,
                    lookups=lookups,
                    alive_until_ms=path.alive_until_ms,
                    once=True,
                )
                if isinstance(result, Stored) and result.action.dispatches[-1:] == made.action.dispatches[-1:]:
                    begun = result
                    self._sender.start(live, begun, made)
        if begun is not None:
            return await self._first_answer(draft, live, begun, asker, path)
        self._sender.forget(live)
        if isinstance(result, Exhausted):
            return self._answering.own(Code.LIMIT_EXHAUSTED, stored.action, draft)
        if isinstance(result, Conflict) and result.via in ("target", "elsewhere"):
            return await self._second(draft, path, result, asker)
        return None


def _aimed(draft: Draft) -> frozenset[str]:
    return frozenset(digest for digests, _ in draft.targets for digest in digests)


_GIVEN_UP: Final = (
    "this proxy was stopped for a while, and the connection was closed meanwhile; nothing was sent. It is safe to try "
    "again."
)
_RETRY_OF_INVALID: Final = (
    "Doubtless-Retry-Of names no action of this event, account and action type. Nothing was sent. It takes the "
    "action_id of the answer that asked for it."
)
