"""Secrets come from the environment, a file or the text itself, and are shown nowhere."""

import base64
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from proxy.config import Complaint, Config, Secret, key_bytes

HUSH = "hush-5f1e77aa"
LONG = base64.urlsafe_b64encode(HUSH.encode() * 9).decode()


def test_a_secret_comes_from_a_variable_a_file_or_the_text(tmp_path: Path, loaded: Callable[..., Config]) -> None:
    (tmp_path / "secret").write_text("from-file\n")

    config = loaded(
        f'[providers.stripe]\nwebhook_secret = ["env:WHSEC", "file:{tmp_path}/secret", "literal"]\n',
        WHSEC="from-variable",
    )

    secrets = [secret.reveal() for secret in config.providers["stripe"].webhook_secret]
    assert secrets == ["from-variable", "from-file", "literal"]
    assert config.variables == {"WHSEC"}
    assert str(tmp_path / "secret") in config.files


@pytest.mark.parametrize(
    ("reference", "rule"),
    [
        ("env:UNSET", "the environment variable UNSET is not set"),
        ("env:EMPTY", "the environment variable EMPTY is empty"),
        ("env:not a name", "must name an environment variable"),
        ("file:absent", "cannot be read"),
        ("file:.", "cannot be read"),
    ],
)
def test_a_secret_that_cannot_be_had_is_complained_of_by_its_source(
    reference: str, rule: str, complaints: Callable[..., list[Complaint]]
) -> None:
    (complaint,) = complaints(f'[providers.stripe]\nread_key = "{reference}"\n', EMPTY=" ")

    assert (complaint.setting, complaint.value) == ("providers.stripe.read_key", f'"{reference}"')
    assert rule in complaint.rule


@pytest.mark.parametrize(
    "text",
    [
        f'[state]\nkey = "{HUSH}"',
        f'[state]\nkey = ["{LONG}"]',
        f'[state]\nkey = {{a = "{HUSH}"}}',
        f'[state]\nkeys = "{HUSH}"',
        f'[providers.stripe]\nread_kye = "{HUSH}"',
        f'[providers.stripe]\nread_key = ["{HUSH}"]',
        f'[providers.stripe]\nread_key = {{live = ["{HUSH}"]}}',
        f'[providers.stripe]\nwebhook_secret = {{a = "{HUSH}"}}',
        f'[providers.stripe]\nwebhook_secret = [["{HUSH}"]]',
        f'[providers.stripe]\nupstream = "https://user:{HUSH}@h/x"',
        f'[providers]\nstripe = "{HUSH}"',
        f'[providers.{HUSH}A]\nread_key = "x"'.replace(HUSH, "hush"),
        f'[admin]\ntokens = "{HUSH}"',
        f'[admin]\ntokens = ["{HUSH}"]',
        f'[admin]\ntokens = [{{name = "a", role = "viewer", token = {{x = "{HUSH}"}}}}]',
        f'[admin]\ntokens = [{{name = "a", role = "x", token = "{HUSH}"}}]',
        f'[[admin.tokens]]\nname = "a"\nrole = "viewer"\ntoken = ["{HUSH}", "{HUSH}"]',
        f'[[notify]]\nurl = "ftp://h/{HUSH}"',
        f'[[notify]]\nurl = "https://h"\nsecrte = "{HUSH}"',
        f'[store]\nurl = "redis://:{HUSH}@h:port/0"',
        f'[store]\nurl = "redis://h/0?password={HUSH}"',
        f'[store]\nurl = "redis://:p?{HUSH}@h/0"',
        f'[store]\nurl = "redis://h/0?password=x@{HUSH}"',
        f'[store]\nurl = "{HUSH}"',
        f'[{HUSH.replace("-", "_")[:4]}]\nx = "{HUSH}"',
        f'secret = "{HUSH}"',
    ],
)  # fmt: skip
def test_a_complaint_never_shows_a_secret(text: str, complaints: Callable[..., list[Complaint]]) -> None:
    said = "\n".join(f"{c} {c!r}" for c in complaints(text))

    assert HUSH not in said
    assert LONG not in said


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DOUBTLESS_ADMIN__TOKENS", f'[{{"token": "{HUSH}"'),
        ("DOUBTLESS_PROVIDERS__STRIPE__READ_KEY", f'{{"live": "{HUSH}"'),
        ("DOUBTLESS_STATE__KEY", HUSH),
        ("DOUBTLESS_STORE__URL", f"redis://:{HUSH}@h:port"),
        ("DOUBTLESS_STATE__KEYS", HUSH),
    ],
)
def test_a_complaint_of_a_variable_never_shows_a_secret(
    variable: str, text: str, complaints: Callable[..., list[Complaint]]
) -> None:
    assert HUSH not in "\n".join(f"{c} {c!r}" for c in complaints("", **{variable: text}))


def test_a_configuration_shows_no_secret_and_is_not_written_out(loaded: Callable[..., Config]) -> None:
    key = base64.urlsafe_b64encode(b"k" * 32).decode()
    config = loaded(
        f'[state]\nkey = "{key}"\n[store]\nurl = "redis://me:{HUSH}@h/1"\n'
        f'[providers.stripe]\nread_key = "{HUSH}"\nwebhook_secret = "{HUSH}"\n'
        f'[[admin.tokens]]\nname = "a"\nrole = "viewer"\ntoken = "{HUSH}1"\n[[notify]]\nurl = "https://h/{HUSH}"\n'
    )

    assert HUSH not in repr(config)
    assert key not in repr(config)
    assert config.store.url.shown == "redis://…@h/1"
    with pytest.raises(TypeError):
        msgspec.json.encode(config.state.key)


def test_secrets_are_equal_by_value_and_differ_from_text() -> None:
    assert Secret("a") == Secret("a")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") != "a"
    assert f"{Secret('a')!r} {Secret('a')}" == "Secret(…) Secret(…)"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (base64.urlsafe_b64encode(b"\xff" * 32).decode(), b"\xff" * 32),
        (base64.urlsafe_b64encode(b"\xff" * 32).decode().rstrip("=") + "\n", b"\xff" * 32),
        (base64.b64encode(b"\xff" * 32).decode(), None),  # The other alphabet: + and /.
        (base64.urlsafe_b64encode(b"k" * 31).decode(), None),
        (base64.urlsafe_b64encode(b"k" * 33).decode(), None),
        ("k" * 32, None),
        ("ü" * 43, None),
        ("", None),
    ],
)
def test_a_state_key_is_32_bytes_in_base64url_padded_or_not(text: str, key: bytes | None) -> None:
    assert key_bytes(text) == key
