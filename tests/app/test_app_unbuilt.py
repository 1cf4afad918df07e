"""A setting whose promise is not kept yet is refused, not passed over."""

import pytest
from click.testing import CliRunner

from proxy.cli import main
from proxy.cli.unbuilt import not_built
from proxy.config import load

KEY = {"DOUBTLESS_STATE__KEY": "A" * 43}


@pytest.mark.parametrize(
    ("setting", "environ"),
    [
        ("store.wait_replicas", {**KEY, "DOUBTLESS_STORE__URL": "redis://h", "DOUBTLESS_STORE__WAIT_REPLICAS": "1"}),
        ("store.url", {**KEY, "DOUBTLESS_STORE__URL": "redis+sentinel://h1,h2/main"}),
        ("store.url", {**KEY, "DOUBTLESS_STORE__URL": "redis+cluster://h1,h2"}),
        ("listen.transparent", {"DOUBTLESS_LISTEN__TRANSPARENT": "127.0.0.1:7443"}),
        ("providers.stripe.stamp", {"DOUBTLESS_PROVIDERS__STRIPE__STAMP": "true"}),
        ("admin.four_eyes_above", {"DOUBTLESS_ADMIN__FOUR_EYES_ABOVE": '{"usd": 100000}'}),
        ("notify", {"DOUBTLESS_NOTIFY": '[{"url": "https://h"}]'}),
    ],
)
def test_it_is_named_and_serve_and_the_check_exit_2(setting: str, environ: dict[str, str]) -> None:
    assert [complaint.setting for complaint in not_built(load(None, environ))] == [setting]
    for command in (["serve"], ["config", "check", "--offline"]):
        ran = CliRunner().invoke(main, command, env=environ)
        assert (ran.exit_code, setting in ran.output) == (2, True)


@pytest.mark.parametrize(
    ("setting", "environ"),
    [
        ("listen.webhooks", {"DOUBTLESS_LISTEN__WEBHOOKS": "127.0.0.1:7444"}),
        ("providers.stripe.webhook_secret", {"DOUBTLESS_PROVIDERS__STRIPE__WEBHOOK_SECRET": '["w"]'}),
        ("admin.trusted_proxies", {"DOUBTLESS_ADMIN__TRUSTED_PROXIES": '["10.0.0.0/8"]'}),
    ],
)
def test_what_is_only_missing_is_said_and_refuses_nothing(setting: str, environ: dict[str, str]) -> None:
    assert not_built(load(None, environ)) == []
    ran = CliRunner().invoke(main, ["config", "check", "--offline"], env=environ)
    assert (ran.exit_code, f"WARNING: {setting} is set" in ran.stderr) == (0, True)


def test_what_is_built_is_not_refused() -> None:
    assert not_built(load(None, {**KEY, "DOUBTLESS_STORE__URL": "redis://h:1/0"})) == []
