"""adapters/README.md keeps its word: its example loads and works, and every key of the schema is told of."""

import re
from importlib import resources
from typing import get_args, get_type_hints

import msgspec

from proxy.core import facts
from proxy.core.adapter import Adapter
from proxy.core.facts_file import load
from proxy.core.model import Amount, Cause, Effect, Tier
from proxy.core.money import of_request
from proxy.core.payload import read
from proxy.core.verdict import Accepted, Rejected, Unclear, of_dispatch
from tests.core.pure_http import answered, headers

README = resources.files("adapters").joinpath("README.md").read_text("utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
ACME = Adapter(load(EXAMPLES[0], "README.md"))
PAYOUT = ACME.match("POST", "/v1/payouts")
MARK = (b"Acme-Request-Id", b"r_1")


def test_there_is_one_complete_example() -> None:
    assert len(EXAMPLES) == 1
    assert len(README.splitlines()) <= 150


def test_the_example_knows_its_payout_by_both_spellings() -> None:
    by_account = ACME.match("POST", "/v1/accounts/acc_1/payouts")

    assert PAYOUT.route_type == by_account.route_type == "acme.payout.create"
    assert by_account.extension == ()
    assert by_account.route.tier is Tier.RECONCILABLE
    assert ACME.takes_key("POST", "/v1/payouts") is not None


def test_the_example_reads_major_units() -> None:
    body = read(headers(content_type="application/json"), b'{"amount":"54.00","currency":"EUR","destination":"d_1"}')

    assert of_request(body, PAYOUT, ACME) == Amount(5400, "eur")


def test_the_example_judges_answers() -> None:
    made = {"id": "po_1", "object": "payout", "amount": "54.00", "currency": "EUR", "status": "paid"}
    invalid = {"error": {"code": "invalid"}}

    def judged(status: int, body: object, *further: tuple[bytes, bytes]) -> object:
        return of_dispatch(answered(status, body, *further), ACME, PAYOUT.route, keyed=True)

    assert judged(200, made, MARK) == Accepted(("po_1",), amount=Amount(5400, "eur"))
    assert judged(200, made) == Unclear(Cause.UNRECOGNISED_RESPONSE)
    assert judged(200, made | {"status": "failed"}, MARK) == Rejected()
    assert judged(422, invalid) == Rejected(before_execution=True)
    assert judged(409, {"error": {"code": "key_in_use"}}, MARK) == Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True)
    assert judged(503, invalid, MARK) == Unclear(Cause.SERVER_ERROR, delivered=True)


def test_a_write_that_the_example_does_not_name_is_money_and_blind() -> None:
    route = ACME.match("POST", "/v1/other").route

    assert (route.effect, route.tier) == (Effect.MONEY, Tier.BLIND)


def structs(of: type[msgspec.Struct], seen: set[type[msgspec.Struct]]) -> set[type[msgspec.Struct]]:
    """Return the tables of a file, from the whole to the smallest."""
    if of not in seen:
        seen.add(of)
        for hint in get_type_hints(of).values():
            for inner in (hint, *get_args(hint), *(part for arg in get_args(hint) for part in get_args(arg))):
                if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                    structs(inner, seen)
    return seen


def test_every_key_and_every_meaning_is_told_of() -> None:
    told = set(re.findall(r"[a-z_]+", README))
    keys = {name for struct in structs(facts.Document, set()) for name in struct.__struct_fields__}
    words = {member.value for kind in (facts.Means, facts.ReadKind, facts.Unit, Tier, Effect) for member in kind}

    assert {"moved_currency", "sdk_lines", "where"} <= keys
    assert sorted((keys | words) - told) == []
