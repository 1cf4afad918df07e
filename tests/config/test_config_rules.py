"""Rules between settings, and complaints that come all at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.config import Complaint, Complaints, Config, load

Refuse = Callable[..., list[Complaint]]
KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
COUNT = 'name = "{}"\nmatch = "*"\nperiod = "day"\n'


@pytest.mark.parametrize(
    ("text", "setting", "value", "rule"),
    [
        ('[listen]\nproxy = "0.0.0.0:7411"', "listen.proxy", "0.0.0.0:7411", "listen.remote"),
        ('[listen]\nwebhooks = "hooks.example:80"', "listen.webhooks", "hooks.example:80", "listen.remote"),
        ('[listen]\nadmin = "[::]:7412"', "listen.admin", "[::]:7412", "listen.remote"),
        ('[providers.resend]\nlisten = "10.0.0.1:1"', "providers.resend.listen", "10.0.0.1:1", "listen.remote"),
        ('[listen]\nadmin = "127.0.0.1:7411"', "listen.admin", "127.0.0.1:7411", "listen.proxy too"),
        ('[listen]\nwebhooks = "127.0.0.1:7421"', "providers.stripe.listen", "7421", "listen.webhooks too"),
        ('[store]\nurl = "redis://h"', "state.key", "not set", "not embedded"),
        ("[store]\nwait_replicas = 1", "store.wait_replicas", "1", "embedded store has none"),
        ('[deadlines]\nanswer = "30s"\nharvest = "29s"', "deadlines.harvest", "29000 ms", "deadlines.answer"),
        ('[readback]\nfirst = "2h"', "readback.max", "3600000 ms", "readback.first"),
        ("[bounds]\nbuffered_bytes = 1000", "bounds.buffered_bytes", "1000", "16777216"),
        ('[state]\nkeep = "19h"', "state.keep", "68400000 ms", "event.retry_window"),
        ('[event]\nretry_window = "1m"\n[state]\nkeep = "1m"', "state.keep", "60000 ms", "deadlines.harvest"),
        ('[state]\nkeep_scopes = "89d"', "state.keep_scopes", "ms", "state.keep"),
        (f"[[limits]]\n{COUNT.format('r')}", "limits[0].amount", "not set", "an amount or a count"),
        (f'[[limits]]\n{COUNT.format("r")}amount = 7\ncount = 1\ncurrency = "usd"', "limits[0].amount", "7", "both"),
        (f"[[limits]]\n{COUNT.format('r')}amount = 1", "limits[0].currency", "not set", "must say of what"),
        (f'[[limits]]\n{COUNT.format("r")}count = 1\ncurrency = "usd"', "limits[0].currency", "usd", "no currency"),
        (f'[[limits]]\n{COUNT.format("r")}count = 1\nprovider = "acme"', "limits", "acme", "not configured"),
        (f"[[limits]]\n{COUNT.format('r')}count = 1\n" * 2, "limits", '"r"', "more than once"),
        ('[limits]\nname = "r"', "limits", "no list", "list of tables"),
        ("[providers.acme]", "providers.acme.adapter", "not set", "adapter file"),
        ("[providers.e]", "providers.e", "not shown", "reserved"),
        ("[providers._doubtless]", "providers._doubtless", "not shown", "reserved"),
        ("[providers.Acme]", "providers.Acme", "not shown", "lower-case"),
        ("providers = 1", "providers", "no table", "tables by name"),
        ("listen = 1", "listen", "no table", "must be a table"),
        ('[admin]\ntokens = [{name = "a", role = "viewer"}]', "admin.tokens[0].token", "not set", "required"),
        ("[admin.four_eyes_above]\ndollars = 1", "admin.four_eyes_above.dollars", "1", "ISO 4217"),
        ('[deadlines]\nansewr = "5s"', "deadlines.ansewr", "not shown", "did you mean answer?"),
        ("[deadline]\n", "deadline", "not shown", "did you mean deadlines?"),
        ("[bogus]\nx = 1", "bogus", "not shown", "is not a section"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_one_complaint_that_names_setting_value_and_rule(
    text: str, setting: str, value: str, rule: str, complaints: Refuse
) -> None:
    (complaint,) = complaints(text)

    assert complaint.setting == setting
    assert value in complaint.value
    assert rule in complaint.rule


def test_all_that_is_wrong_is_said_at_once(complaints: Refuse) -> None:
    text = '[deadlines]\nanswer = "soon"\n[event]\nmissing = "maybe"\n[egress]\ndefault = "allow"\n[bogus]\nx = 1\n'

    said = "\n".join(map(str, complaints(text, DOUBTLESS_BOUNDS__CONNECTIONS="many")))

    for word in ("deadlines.answer", "soon", "event.missing", "maybe", "egress.default", "allow", "bogus", "many"):
        assert word in said


def test_a_bad_value_brings_no_second_complaint_by_the_default_that_stands_in_for_it(complaints: Refuse) -> None:
    (complaint,) = complaints('[deadlines]\nanswer = "soon"\nharvest = "1s"\n')

    assert complaint.setting == "deadlines.answer"


def test_an_item_is_numbered_as_it_is_written_though_others_are_refused(complaints: Refuse) -> None:
    text = f"[[limits]]\nname = 1\n[[limits]]\n{COUNT.format('r')}amount = 5\n"

    assert [c.setting for c in complaints(text)] == [
        "limits[0].name",
        "limits[0].match",
        "limits[0].period",
        "limits[1].currency",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '[listen]\nhealth = "0.0.0.0:7413"',
        '[listen]\nremote = true\nproxy = "0.0.0.0:7411"\nadmin = "[::]:7412"',
        '[listen]\nproxy = ""\nadmin = ""\nhealth = ""\n[providers.stripe]\nlisten = ""',
        '[listen]\nproxy = "127.0.0.1:0"\nadmin = "127.0.0.1:0"',
        '[deadlines]\nconnect = "1s"\nanswer = "1s"\nharvest = "1.3s"',
        '[deadlines]\nconnect = "5s"\nanswer = "1s"\nharvest = "1s"',
        f'[store]\nurl = "redis://h"\nwait_replicas = 1\n[state]\nkey = "{KEY}"',
    ],
)
def test_what_breaks_no_rule_is_taken(text: str, loaded: Callable[..., Config]) -> None:
    assert loaded(text)


def test_a_provider_of_ones_own_needs_its_adapter_and_is_watched(tmp_path: Path, loaded: Callable[..., Config]) -> None:
    adapter = tmp_path / "acme.toml"
    adapter.touch()

    config = loaded(f'[providers.acme]\nadapter = "{adapter}"\n')

    assert list(config.providers) == ["stripe", "resend", "acme"]
    assert config.providers["acme"].upstream is None
    assert config.files == (str(tmp_path / "doubtless.toml"), str(adapter))


@pytest.mark.parametrize(
    ("text", "where", "rule"),
    [
        (b"[listen]\nproxy = 'a'\nproxy = 'b'\n", "line 3", "is not TOML"),
        (b"[listen\n", "line 1", "is not TOML"),
        (b"\xff", "the file", "UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_complaint(tmp_path: Path, text: bytes, where: str, rule: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(text)

    with pytest.raises(Complaints) as caught:
        load(str(path), {})

    (complaint,) = caught.value.complaints
    assert complaint.setting == str(path)
    assert where in complaint.value
    assert rule in complaint.rule


def test_a_file_that_is_not_there_is_one_complaint(tmp_path: Path) -> None:
    with pytest.raises(Complaints, match=r"absent\.toml.*No such file"):
        load(str(tmp_path / "absent.toml"), {})


def test_what_was_written_is_told_from_what_is_default(loaded: Callable[..., Config]) -> None:
    config = loaded('[egress]\ndefault = "deny"\n', DOUBTLESS_LOG__LEVEL="info")

    assert {"egress.default", "log.level"} <= config.given
    assert "log.format" not in config.given
