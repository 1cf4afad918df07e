"""Reading what a request moves where the request does not say it: the currency of a refund, what remains of a charge.

A conversation without I/O, like a read-back: `ask` names the next GET, `hear` takes its answer. Reads only.
"""

from proxy.core import money
from proxy.core.adapter import Adapter
from proxy.core.facts import Quote, Route
from proxy.core.http import Answered, Integrity
from proxy.core.model import Amount
from proxy.core.payload import INVALID, text_of, walk
from proxy.core.readback import fill
from proxy.core.verdict import tree_of


class Quoting:
    """One request's price. `amount` is what is known so far; what the request said is never overruled."""

    def __init__(self, adapter: Adapter, route: Route, facts: dict[str, str], amount: Amount) -> None:
        self._adapter = adapter
        self._facts = dict(facts)
        self._left = list(route.quotes)
        self._now: Quote | None = None
        self.amount = amount

    def ask(self) -> str | None:
        """Return the next target to GET; None where the price is known, or nothing more can be asked."""
        self._now = None
        if self.amount.priced:
            return None
        self._now = next((quote for quote in self._left if quote.needs in self._facts), None)
        if self._now is None:
            return None
        self._left.remove(self._now)
        return fill(self._now.path, self._facts)

    def hear(self, answered: Answered | None) -> None:
        """Take the answer; None where none came."""
        quote = self._now
        if quote is None or answered is None or answered.integrity is not Integrity.WHOLE:
            return
        tree = tree_of(answered.response) if answered.response.status == 200 else INVALID
        if tree is INVALID:
            return
        for name, pointer in quote.facts.items():
            value = text_of(next(walk(tree, pointer), None))
            if value is not None:
                self._facts[name] = value
        read = text_of(next(walk(tree, quote.currency), None)) if quote.currency else None
        currency = self.amount.currency or money.currency_code(read)
        said = self.amount.minor
        theirs = _remaining(tree, quote) if said is None else said
        if theirs is not None and (said is None or self.amount.currency is None):
            theirs = money.iso_minor(theirs, currency, self._adapter)  # Only its currency says what unit it is in.
        if said is not None and theirs is None:
            self._left.clear()  # The request says an amount that the currency does not have: nothing stands for it.
        self.amount = Amount(theirs, currency)


def _remaining(tree: object, quote: Quote) -> int | None:
    value = _integer(tree, quote.amount)
    less = _integer(tree, quote.less) if quote.less else 0
    if value is None or less is None or value - less <= 0:
        return None
    return value - less


def _integer(tree: object, pointer: str) -> int | None:
    text = text_of(next(walk(tree, pointer), None)) if pointer else None
    return int(text) if text is not None and text.isdecimal() and len(text) <= 16 else None
