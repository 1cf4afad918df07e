"""`DOUBTLESS_<SECTION>__<NAME>` overrides a setting; what names none is complained of."""

from collections.abc import Callable

import pytest

from proxy.config import Address, Complaint, Config, Secret, load

TOKENS = '[{"name": "a", "role": "viewer", "token": "t"}]'
LIMITS = '[{"name": "r", "match": "*", "count": 3, "period": "total"}]'


def read_key(config: Config) -> dict[str, Secret]:
    return config.providers["stripe"].read_key


@pytest.mark.parametrize(
    ("variable", "text", "get", "kept"),
    [
        ("LISTEN__PROXY", "127.0.0.1:1", lambda c: c.listen.proxy, Address("127.0.0.1", 1)),
        ("LISTEN__ADMIN", "", lambda c: c.listen.admin, None),
        ("STORE__ALLOW_EPHEMERAL", "true", lambda c: c.store.allow_ephemeral, True),
        ("BOUNDS__BODY_BYTES", "20000", lambda c: c.bounds.body_bytes, 20_000),
        ("DEADLINES__ANSWER", "2s", lambda c: c.deadlines.answer_ms, 2_000),
        ("EVENT__MISSING", "require", lambda c: c.event.missing, "require"),
        ("EVENT__HEADERS", '["ce"]', lambda c: c.event.headers, ("ce",)),
        ("EVENT__HEADERS", "X-Job-Id", lambda c: c.event.headers, ("X-Job-Id",)),
        ("PROVIDERS__STRIPE__READ_KEY", "rk", read_key, {"*": Secret("rk")}),
        ("PROVIDERS__STRIPE__READ_KEY", '{"live": "a"}', read_key, {"live": Secret("a")}),
        ("PROVIDERS__STRIPE__WEBHOOK_SECRET", '["a", "b"]', lambda c: len(c.providers["stripe"].webhook_secret), 2),
        ("LIMITS", LIMITS, lambda c: c.limits[0].count, 3),
        ("ADMIN__TOKENS", TOKENS, lambda c: c.admin.tokens[0].role, "viewer"),
        ("ADMIN__FOUR_EYES_ABOVE", '{"usd": 5}', lambda c: c.admin.four_eyes_above, {"usd": 5}),
    ],
)  # fmt: skip
def test_a_variable_is_a_setting(variable: str, text: str, get: Callable[[Config], object], kept: object) -> None:
    assert get(load(None, {f"DOUBTLESS_{variable}": text})) == kept


@pytest.mark.parametrize("variable", ["DOUBTLESS_EVENT__HEADERS", "DOUBTLESS_LIMITS", "DOUBTLESS_ADMIN__TOKENS"])
def test_a_list_that_is_not_json_is_complained_of(variable: str, complaints: Callable[..., list[Complaint]]) -> None:
    (complaint,) = complaints("", **{variable: '[{"a"'})

    assert "must be JSON" in complaint.rule


def test_a_variable_stands_over_the_file(loaded: Callable[..., Config]) -> None:
    config = loaded('[event]\nmissing = "derive"\ntwin = false\n', DOUBTLESS_EVENT__MISSING="require")

    assert (config.event.missing, config.event.twin) == ("require", False)


def test_a_variable_finds_a_provider_whose_name_has_a_dash(tmp_path, loaded: Callable[..., Config]) -> None:
    adapter = tmp_path / "a.toml"
    adapter.touch()

    config = loaded(
        f'[providers.my-acme]\nadapter = "{adapter}"\n', DOUBTLESS_PROVIDERS__MY_ACME__UPSTREAM="http://127.0.0.1:9"
    )

    assert str(config.providers["my-acme"].upstream) == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("variable", "rule"),
    [
        ("DOUBTLESS_LISTEN__PROXI", "did you mean DOUBTLESS_LISTEN__PROXY?"),
        ("DOUBTLESS_BOGUS__THING", "names no setting"),
        ("DOUBTLESS_LISTEN__PROXY__HOST", "names no setting"),
        ("DOUBTLESS_LISTEN__", "names no setting"),
        ("DOUBTLESS_PROVIDERS__STRIPE__READKEY", "names no setting"),
    ],
)
def test_a_variable_that_names_no_setting_is_complained_of_without_its_value(
    variable: str, rule: str, complaints: Callable[..., list[Complaint]]
) -> None:
    (complaint,) = complaints("", **{variable: "sk_live_1"})

    assert complaint.setting == variable
    assert rule in complaint.rule
    assert "sk_live_1" not in str(complaint)


@pytest.mark.parametrize(
    "variable",
    [
        "DOUBTLESS_ADMIN_URL",
        "DOUBTLESS_ADMIN_TOKEN",
        "DOUBTLESS_STATE_KEY",
        "DOUBTLESS_CONFIG",
        "DOUBTLESS_PORT_7411_TCP",  # Kubernetes makes it for a Service of that name.
        "DOUBTLESS_LISTEN",
        "doubtless_listen__proxy",
        "OTHER__THING",
    ],
)
def test_other_variables_are_left_alone(variable: str) -> None:
    assert load(None, {variable: "x"}) == load(None, {})


def test_a_variable_that_a_secret_names_need_not_be_a_setting(loaded: Callable[..., Config]) -> None:
    config = loaded('[providers.stripe]\nread_key = "env:DOUBTLESS_MY__KEY"\n', DOUBTLESS_MY__KEY="rk")

    assert config.variables == {"DOUBTLESS_MY__KEY"}


def test_a_complaint_of_a_variables_value_names_the_variable(complaints: Callable[..., list[Complaint]]) -> None:
    (complaint,) = complaints("", DOUBTLESS_DEADLINES__ANSWER="soon")

    assert (complaint.setting, complaint.value) == ("deadlines.answer", '"soon"')
    assert "set by DOUBTLESS_DEADLINES__ANSWER" in complaint.rule
