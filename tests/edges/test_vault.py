"""What is sealed opens for its own purpose only; what is digested is keyed."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.edges.vault import StateVault

OLD, NEW, FOREIGN = b"o" * 32, b"n" * 32, b"f" * 32
ABOUT = "0190-action/response"


@given(st.binary(max_size=300), st.text(max_size=40))
def test_what_is_sealed_opens(plain: bytes, about: str) -> None:
    vault = StateVault([NEW])

    assert vault.open(vault.seal(plain, about), about) == plain


def test_the_newest_key_seals_and_all_open() -> None:
    before, rotated = StateVault([OLD]), StateVault([NEW, OLD])

    assert rotated.open(before.seal(b"body", ABOUT), ABOUT) == b"body"
    assert before.open(rotated.seal(b"body", ABOUT), ABOUT) is None
    assert StateVault([NEW]).open(rotated.seal(b"body", ABOUT), ABOUT) == b"body"


def test_what_another_made_or_is_about_something_else_does_not_open() -> None:
    sealed = StateVault([NEW]).seal(b"body", ABOUT)

    assert StateVault([FOREIGN]).open(sealed, ABOUT) is None
    assert StateVault([NEW]).open(sealed, "0190-action/request") is None


def test_a_change_of_any_byte_and_a_cut_anywhere_are_noticed() -> None:
    vault = StateVault([NEW, OLD])
    sealed = vault.seal(b"body", ABOUT)

    for at in range(len(sealed)):
        assert vault.open(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], ABOUT) is None
        assert vault.open(sealed[:at], ABOUT) is None
    assert vault.open(sealed + b"x", ABOUT) is None


def test_the_same_value_is_sealed_differently_each_time_and_shows_nothing() -> None:
    vault = StateVault([NEW])
    sealed = {vault.seal(b"sk_live_secret", ABOUT) for _ in range(100)}

    assert len(sealed) == 100
    assert not [one for one in sealed if b"sk_live" in one]


def test_two_keys_that_bear_one_name_are_both_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = StateVault([NEW, OLD])
    old = StateVault([OLD])
    for key in (*vault._keys, *old._keys):
        key.name = b"same"

    assert vault.open(old.seal(b"body", ABOUT), ABOUT) == b"body"


def test_a_digest_is_keyed_and_has_32_digits() -> None:
    digest = StateVault([NEW]).digest(b"sk_live_1")

    assert len(bytes.fromhex(digest)) == 16
    assert digest == StateVault([NEW]).digest(b"sk_live_1")
    assert digest != StateVault([OLD]).digest(b"sk_live_1")
    assert digest != StateVault([NEW]).digest(b"sk_live_2")
    assert digest not in (hashlib.sha256(b"sk_live_1").hexdigest(), hashlib.blake2b(b"sk_live_1").hexdigest())


def test_digests_are_those_of_every_key_the_newest_first() -> None:
    digests = StateVault([NEW, OLD]).digests(b"x")

    assert digests == (StateVault([NEW]).digest(b"x"), StateVault([OLD]).digest(b"x"))
    assert digests[0] == StateVault([NEW, OLD]).digest(b"x")


@pytest.mark.parametrize("keys", [[], [b"short"], [NEW, b""], [NEW * 2]])
def test_a_vault_without_whole_keys_is_refused(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="key"):
        StateVault(keys)
