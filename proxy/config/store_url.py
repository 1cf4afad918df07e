"""`store.url`: which store, and how it is reached."""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

from proxy.config.address import Address, parse_address
from proxy.config.reading import Bad, Place, plainly
from proxy.config.secret import Secret, SecretText, resolve

REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26_379
_DATABASE: Final = re.compile(r"(?:/(?P<db>\d{1,5})?)?")
_SERVICE: Final = re.compile(r"/(?P<service>[A-Za-z0-9._-]+)(?:/(?P<db>\d{1,5})?)?")
_SCHEMES: Final = {"redis": "redis", "valkey": "redis", "rediss": "rediss", "valkeys": "rediss"}
_QUERY: Final = frozenset(  # Nothing that changes time-outs or retries: those are ours.
    {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)

_WAYS: Final = "embedded:, redis://, rediss://, valkey://, valkeys://, unix://, redis+sentinel:// or redis+cluster://"


class StoreKind(StrEnum):
    """How the store is run and reached."""

    EMBEDDED = "embedded"
    SINGLE = "single"
    UNIX = "unix"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class StoreUrl(Struct, frozen=True, kw_only=True):
    """A store's URL, taken apart.

    `address` is the URL for redis-py (`redis`, `rediss` or `unix`), empty where it is embedded, of a sentinel or a
    cluster: those have `nodes`, `username`, `password` and `tls`; a sentinel also `service`. `shown` has no secrets.
    """

    kind: StoreKind
    shown: str
    address: Secret = Secret("")
    folder: str = ""
    nodes: tuple[Address, ...] = ()
    service: str = ""
    database: int = 0
    username: str = ""
    password: Secret | None = None
    tls: bool = False


EMBEDDED: Final = StoreUrl(kind=StoreKind.EMBEDDED, shown="embedded:.doubtless", folder=".doubtless")


def masked(text: str) -> str:
    """Return a URL without what may be a secret: the part before the host, and the query."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text if text.startswith("embedded:") else "(hidden)"
    host = re.split(r"[?#]", rest, maxsplit=1)[0]
    if "@" in rest[len(host) :]:
        return f"{scheme}://…"  # Nobody can tell where the password ends.
    return f"{scheme}://{'…@' * ('@' in host)}{host.rpartition('@')[2]}"


class StoreUrlText(SecretText):
    """The store's URL; as it may hold a password, it may come from a variable or a file."""

    def read(self, value: object, at: Place) -> object:
        """Read a store's URL."""
        text = resolve(value, at)
        shown = plainly(masked(text)) if value == text else None
        scheme, _, rest = text.partition(":")
        try:
            if scheme == "embedded":
                return _embedded(rest)
            if scheme == "unix":
                return _unix(text)
            how, _, topology = scheme.partition("+")
            if how in _SCHEMES and topology in ("", "sentinel", "cluster"):
                return _network(text, scheme=_SCHEMES[how], topology=topology)
        except Bad as bad:
            raise Bad(bad.rule, shown) from None
        except ValueError:
            raise Bad("is not a URL", shown) from None
        raise Bad(f"must begin with {_WAYS}", shown)


def _embedded(folder: str) -> StoreUrl:
    if not folder or folder.startswith("//") or "\0" in folder:
        raise Bad('must name a folder: "embedded:.doubtless" or "embedded:/var/lib/doubtless"')
    return StoreUrl(kind=StoreKind.EMBEDDED, shown=f"embedded:{folder}", folder=folder)


def _unix(text: str) -> StoreUrl:
    url = urlsplit(text)
    query = _query(url)
    if not url.path.startswith("/") or url.netloc.rpartition("@")[2]:
        raise Bad('must name a socket by its whole path: "unix:///run/valkey.sock"')
    return StoreUrl(
        kind=StoreKind.UNIX,
        shown=masked(text),
        address=Secret(text),
        database=_number(query.get("db", "0")),
        username=unquote(url.username or ""),
        password=_password(url),
    )


def _network(text: str, *, scheme: str, topology: str) -> StoreUrl:
    url = urlsplit(text)
    query = _query(url)
    default = SENTINEL_PORT if topology == "sentinel" else REDIS_PORT
    hosts = url.netloc.rpartition("@")[2].split(",")
    nodes = tuple(node for host in hosts if (node := parse_address(host, default)) and node.port)
    if len(nodes) != len(hosts) or (len(nodes) > 1 and not topology):
        raise Bad("must name a host and at most a port" + (", or several with commas between" if topology else ""))
    path = (_SERVICE if topology == "sentinel" else _DATABASE).fullmatch(url.path)
    if path is None:
        raise Bad(
            "must end with /service or /service/db" if topology == "sentinel" else "must end with the host or /db"
        )
    database = _number(path["db"] or query.get("db", "0"))
    if topology == "cluster" and database:
        raise Bad("a cluster has only database 0")
    return StoreUrl(
        kind=StoreKind(topology or "single"),
        shown=masked(text),
        address=Secret("" if topology else f"{scheme}://{text.partition('://')[2]}"),
        nodes=nodes,
        service=path["service"] if topology == "sentinel" else "",
        database=database,
        username=unquote(url.username or ""),
        password=_password(url),
        tls=scheme == "rediss",
    )


def _query(url: SplitResult) -> dict[str, str]:
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    if url.fragment or query.keys() - _QUERY:  # What stands there may be the rest of a password: it is not shown.
        raise Bad(f"may have after ? only {', '.join(sorted(_QUERY))}, and no #; a password is written %-encoded")
    return query


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text):
        raise Bad("must name its database by a number")
    return int(text)


def _password(url: SplitResult) -> Secret | None:
    return None if url.password is None else Secret(unquote(url.password))
