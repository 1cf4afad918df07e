"""`store.url`: every way to reach a store, taken apart."""

from collections.abc import Callable

import pytest

from proxy.config import Address, Complaint, Config, Secret, StoreKind, StoreUrl

KEY = '[state]\nkey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"\n'


def single(text: str, shown: str, **parts: object) -> StoreUrl:
    return StoreUrl(kind=StoreKind.SINGLE, shown=shown, address=Secret(text), **parts)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("embedded:state", StoreUrl(kind=StoreKind.EMBEDDED, shown="embedded:state", folder="state")),
        ("embedded:/a b", StoreUrl(kind=StoreKind.EMBEDDED, shown="embedded:/a b", folder="/a b")),
        ("redis://h", single("redis://h", "redis://h", nodes=(Address("h", 6379),))),
        ("valkey://h:1/2", single("redis://h:1/2", "valkey://h:1/2", nodes=(Address("h", 1),), database=2)),
        ("valkeys://[::1]/", single("rediss://[::1]/", "valkeys://[::1]/", nodes=(Address("::1", 6379),), tls=True)),
        (
            "rediss://me:p%40ss@h:1/0?ssl_cert_reqs=required",
            single(
                "rediss://me:p%40ss@h:1/0?ssl_cert_reqs=required", "rediss://…@h:1/0",
                nodes=(Address("h", 1),), tls=True, username="me", password=Secret("p@ss"),
            ),
        ),
        (
            "unix:///run/v.sock?db=3",
            StoreUrl(
                kind=StoreKind.UNIX, shown="unix:///run/v.sock", database=3, address=Secret("unix:///run/v.sock?db=3"),
            ),
        ),
        (
            "redis+sentinel://u:p@h1,h2:9/main/4",
            StoreUrl(
                kind=StoreKind.SENTINEL, shown="redis+sentinel://…@h1,h2:9/main/4", service="main", database=4,
                nodes=(Address("h1", 26379), Address("h2", 9)), username="u", password=Secret("p"),
            ),
        ),
        (
            "valkeys+cluster://h1:1,h2",
            StoreUrl(
                kind=StoreKind.CLUSTER, shown="valkeys+cluster://h1:1,h2", tls=True,
                nodes=(Address("h1", 1), Address("h2", 6379)),
            ),
        ),
    ],
)  # fmt: skip
def test_a_url_is_taken_apart(text: str, url: StoreUrl, loaded: Callable[..., Config]) -> None:
    assert loaded(f'[store]\nurl = "{text}"\n{KEY}').store.url == url


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("embedded:", "must name a folder"),
        ("embedded://x", "must name a folder"),
        ("http://h", "must begin with"),
        ("redis+unix://h", "must begin with"),
        ("h:6379", "must begin with"),
        ("redis://", "must name a host"),
        ("redis://h1,h2", "must name a host"),
        ("redis://h:0", "must name a host"),
        ("redis://h:http", "must name a host"),
        ("redis://h/first", "must end with"),
        ("redis://h/0?retry_on_timeout=true", "after ? only db"),
        ("redis://h/0#x", "and no #"),
        ("redis://[::1", "is not a URL"),
        ("unix://run/v.sock", "by its whole path"),
        ("unix:///run/v.sock?db=x", "by a number"),
        ("redis+sentinel://h", "must end with /service"),
        ("redis+cluster://h/1", "only database 0"),
    ],
)
def test_a_bad_url_is_complained_of(text: str, rule: str, complaints: Callable[..., list[Complaint]]) -> None:
    (complaint,) = complaints(f'[store]\nurl = "{text}"\n{KEY}')

    assert complaint.setting == "store.url"
    assert rule in complaint.rule


def test_a_url_with_its_password_may_come_from_a_variable(loaded: Callable[..., Config]) -> None:
    url = loaded(f'[store]\nurl = "env:STORE"\n{KEY}', STORE="redis://:p@h").store.url

    assert url.password == Secret("p")
