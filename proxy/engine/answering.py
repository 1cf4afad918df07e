"""Answers to agents, made of what stands recorded."""

from collections.abc import Mapping

from proxy.core import answers, view
from proxy.core.adapter import Adapter
from proxy.core.answers import Code, Own
from proxy.core.http import Response
from proxy.core.model import Action, Cause, Status
from proxy.core.retirement import Outcome
from proxy.engine.asking import Answer, Provided
from proxy.engine.drafting import Draft

_CLOSED = "another request, made with another credential, stands in the way of this one; nothing was sent."


class Answering:
    """Turns an action, and what is known of it, into the answer for one request."""

    def __init__(self, adapters: Mapping[str, Adapter]) -> None:
        self._adapters = adapters

    def provided(self, action: Action, response: Response, *, replayed: bool, folded: bool) -> Provided:
        """Pass the provider's own answer on."""
        headers = answers.action_headers(action, answers.retry_of_answer(action))
        if replayed:
            headers.append(("Idempotent-Replayed", "true"))
        if folded:
            headers.append(("Doubtless-Folded-Into", action.action_id))
        delivers = action.status in (Status.CONFIRMED, Status.FAILED)
        return Provided(response, tuple(headers), action.action_id, delivers, folded)

    def of_outcome(
        self, draft: Draft, action: Action, response: Response | None, *, replayed: bool, folded: bool
    ) -> Answer:
        """Answer with what became of a dispatch."""
        if response is not None:
            return self.provided(action, response, replayed=replayed, folded=folded)
        match action.status:
            case Status.FAILED if action.cause is Cause.NOT_SENT:
                why = next((e.detail for e in reversed(action.evidence) if e.detail), "")
                return self.own(Code.NOT_SENT, action, draft, folded=folded, error=why or None)
            case Status.PENDING:
                return self.own(Code.ACTION_IN_FLIGHT, action, draft, folded=folded)
            case Status.CONFIRMED:
                return self.own(Code.ALREADY_SETTLED, action, draft, folded=folded)
            case _:
                return self.own(Code.OUTCOME_UNKNOWN, action, draft, folded=folded)

    def own(
        self,
        code: Code,
        action: Action,
        draft: Draft,
        *,
        shown: bool = True,
        folded: bool = False,
        names: "list[str] | None" = None,
        until_ms: int | None = None,
        error: str | None = None,
    ) -> Own:
        """Make an answer of ours about an action. `shown` false: another credential asked; code and message only."""
        if not shown:
            return answers.own(code, _CLOSED)
        shown_view = view.doubtless(action, self._adapters.get(action.identity.provider), draft.ask.base)
        text = self._text(code, action, str(shown_view["status_url"]), names or [], until_ms)
        return answers.own(code, text, view=shown_view, action=action, folded=folded, error=error)

    def retired(self, draft: Draft, outcome: Outcome) -> Own:
        """Answer for an action that has left the store: nobody knows any more with which credential it was made."""
        return answers.own(Code.ALREADY_SETTLED, answers.retired_text(draft.match.route_type, outcome))

    def _text(self, code: Code, action: Action, status_url: str, names: "list[str]", until_ms: int | None) -> str:
        match code:
            case Code.OUTCOME_UNKNOWN:
                return answers.unknown_text(action, status_url)
            case Code.ACTION_IN_FLIGHT:
                return answers.in_flight_text(action, status_url)
            case Code.SUSPECTED_DUPLICATE:
                return answers.twin_text(action, status_url)
            case Code.PAYLOAD_MISMATCH:
                return answers.mismatch_text(names)
            case Code.RETRY_OF_REQUIRED:
                return answers.retry_of_text(action)
            case Code.NOT_SENT:
                return answers.not_sent_text(action)
            case Code.TOO_EARLY:
                return answers.too_early_text(action, view.iso(until_ms) or "")
            case Code.LIMIT_EXHAUSTED | Code.AMOUNT_UNDETERMINABLE | Code.PAUSED:
                return answers.refused_text(code, action)
            case _:
                return answers.settled_text(action, status_url)
