"""Amounts as integers in the currency's minor unit (ISO 4217), read from requests and written for people. No floats."""

import re
from typing import Final

from proxy.core.adapter import Adapter, Match, texts_of
from proxy.core.facts import Unit
from proxy.core.model import Amount
from proxy.core.payload import Kind, Payload, flat

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
    currency = currency_code(payload.one(rule.currency) if rule.currency else None)
    return Amount(minor(payload.one(rule.value), rule.unit, currency, adapter), currency)


def moves(payload: Payload, match: Match) -> bool:
    """Does this request move anything? Where a field decides, the adapter says which.

    Doubt counts as yes: a field that is there twice, and a body that cannot be read, must not evade a limit.
    """
    wanted = match.route.moves_when
    if payload.kind in (Kind.BYTES, Kind.MULTIPART) and payload.raw:
        return True
    return all(_says(payload, pointer, texts_of(want)) for pointer, want in wanted.items())


def _says(payload: Payload, pointer: str, wanted: set[str]) -> bool:
    said = {text.strip().lower() for node in payload.values(pointer) for text in flat(node)}
    return bool(said) if "*" in wanted else not said.isdisjoint({text.lower() for text in wanted})


def currency_code(text: str | None) -> str | None:
    """Return an ISO 4217 code in lower case; None where the text is none."""
    return text.lower() if text is not None and _CURRENCY.fullmatch(text) else None


def minor(value: str | None, unit: Unit, currency: str | None, adapter: Adapter) -> int | None:
    """Return what a text of the provider's says, in ISO 4217's minor unit; None where it says no amount."""
    if value is None:
        return None
    if unit is Unit.MINOR:
        found = iso_minor(int(value), currency, adapter) if _INTEGER.fullmatch(value) else None
    else:
        match = _DECIMAL.fullmatch(value)
        if match is None or currency is None or len(match[2] or "") > decimals(currency):
            return None
        found = int(match[1] + (match[2] or "").ljust(decimals(currency), "0"))
    return found if found is not None and 0 < found <= LARGEST else None


def iso_minor(value: int, currency: str | None, adapter: Adapter) -> int | None:
    """Turn the provider's own minor unit into ISO 4217's where they differ; None where that is not a whole number."""
    theirs = None if currency is None else adapter.doc.minor_units.get(currency)
    if theirs is None or currency is None:
        return value
    whole, rest = divmod(value * 10 ** decimals(currency), 10**theirs)
    return whole if rest == 0 else None
