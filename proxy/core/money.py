"""Amounts as integers in the currency's minor unit (ISO 4217), read from requests and written for people. No floats."""

import re
from typing import Final

from proxy.core.adapter import Adapter, Match
from proxy.core.facts import AmountRule, Unit
from proxy.core.model import Amount
from proxy.core.payload import Payload
from proxy.core.verdict import holds

LARGEST: Final = 2**53 - 1

# ISO 4217:2015 list one, decimals other than two (maintenance agency's table, six-currency.com, read 2026-11-30).
_NO_DECIMALS: Final = "bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf"
_THREE_DECIMALS: Final = "bhd iqd jod kwd lyd omr tnd"
_DECIMALS: Final = dict.fromkeys(_NO_DECIMALS.split(), 0) | dict.fromkeys(_THREE_DECIMALS.split(), 3)
_CURRENCY: Final = re.compile(r"[A-Za-z]{3}")
_INTEGER: Final = re.compile(r"[0-9]{1,16}")
_DECIMAL: Final = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,3}))?")


def decimals(currency: str) -> int:
    """Return how many decimals the currency's minor unit has."""
    return _DECIMALS.get(currency.lower(), 2)


def human(amount: Amount) -> str:
    """Return an amount as people write it: `54.00 USD`; without a currency, what is known of it."""
    if amount.minor is None:
        return "an amount that is not known yet"
    if amount.currency is None:
        return f"{amount.minor} (in minor units; its currency is not known yet)"
    places = decimals(amount.currency)
    whole, rest = divmod(amount.minor, 10**places)
    return f"{whole}{f'.{rest:0{places}d}' if places else ''} {amount.currency.upper()}"


def of_request(payload: Payload, match: Match, adapter: Adapter) -> Amount:
    """Return what the request says it moves. What it does not carry, or carries twice or wrongly, is None."""
    rule = match.route.amount
    if rule is None or not moves(payload, match):
        return Amount()
    currency = payload.one(rule.currency) if rule.currency else None
    currency = currency.lower() if currency is not None and _CURRENCY.fullmatch(currency) else None
    value = payload.one(rule.value)
    return Amount(None if value is None else _minor(value, rule, currency, adapter), currency)


def moves(payload: Payload, match: Match) -> bool:
    """Does this request move anything? Where a field decides, the adapter says which."""
    wanted = match.route.moves_when
    if not wanted:
        return True
    if payload.tree is not None:
        return holds(payload.tree, wanted)
    return all(payload.one(pointer) in _texts(want) for pointer, want in wanted.items())


def _texts(want: object) -> set[str]:
    options = want if isinstance(want, list) else [want]
    return {("true" if o else "false") if isinstance(o, bool) else str(o) for o in options}


def _minor(value: str, rule: AmountRule, currency: str | None, adapter: Adapter) -> int | None:
    if rule.unit is Unit.MINOR:
        if not _INTEGER.fullmatch(value):
            return None
        minor = iso_minor(int(value), currency, adapter)
    else:
        match = _DECIMAL.fullmatch(value)
        if match is None or currency is None or len(match[2] or "") > decimals(currency):
            return None
        minor = int(match[1] + (match[2] or "").ljust(decimals(currency), "0"))
    return minor if minor is not None and 0 < minor <= LARGEST else None


def iso_minor(value: int, currency: str | None, adapter: Adapter) -> int | None:
    """Turn the provider's own minor unit into ISO 4217's where they differ; None where that is not a whole number."""
    theirs = None if currency is None else adapter.doc.minor_units.get(currency)
    if theirs is None or currency is None:
        return value
    whole, rest = divmod(value * 10 ** decimals(currency), 10**theirs)
    return whole if rest == 0 else None
