"""Addresses: where we listen, whom we connect to, and whom we trust."""

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from proxy.config.reading import Bad, Place, Reader, Text
from proxy.config.secret import Secret, SecretText, resolve

PORT_MAX: Final = 65_535
_HOST_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/@]+):(\d{1,5})")
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*"
)
_NUMERIC: Final = re.compile(r"[0-9.]+")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Address(Struct, frozen=True):
    """A host, a name or an IP address without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Does this address stay on this machine? A name other than localhost may lead anywhere."""
        ip = _ip(self.host)
        return self.host.lower() == "localhost" if ip is None else ip.is_loopback


class Origin(Struct, frozen=True):
    """Where a provider is: scheme, host and port."""

    tls: bool
    address: Address

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}"


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def parse_address(text: str, default_port: int | None = None) -> Address | None:
    """Read `host:port`, an IPv6 address in brackets; None where it is no address.

    `default_port` stands in for one that is missing.
    """
    if default_port is not None and not re.search(r":\d+\Z", text.rpartition("]")[2]):
        text = f"{text}:{default_port}"
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match[2]) > PORT_MAX:
        return None
    host = match[1].strip("[]")
    bracketed = match[1] != host
    ip = _ip(host)
    if bracketed or ip is not None:
        return Address(host, int(match[2])) if ip is not None and (ip.version == 6) == bracketed else None
    if _NUMERIC.fullmatch(host) or not _NAME.fullmatch(host):
        return None
    return Address(host, int(match[2]))


class HostPort(Text):
    """A host and a port. `least` is 0 where the system may choose the port."""

    def __init__(self, least: int = 1) -> None:
        super().__init__()
        self.least = least

    def read(self, value: object, at: Place) -> object:
        """Read an address."""
        del at
        address = parse_address(value) if isinstance(value, str) else None
        if address is None or address.port < self.least:
            raise Bad('must be host:port, such as "127.0.0.1:7411" or "[::1]:7411"')
        return address


class Listener(HostPort):
    """An address to listen on; "" is off, kept as None."""

    def __init__(self) -> None:
        super().__init__(least=0)

    def read(self, value: object, at: Place) -> object:
        """Read an address, or None for off."""
        if value == "":
            return None
        try:
            return super().read(value, at)
        except Bad as bad:
            raise Bad(f'{bad.rule}; "" is off') from None


class Upstream(Text):
    """The origin of a provider: no path, which would change the agent's, and no credentials."""

    def read(self, value: object, at: Place) -> object:
        """Read an origin; port 443 or 80 where none is written."""
        del at
        url = _http_url(value) if isinstance(value, str) else None
        if url is None or url.path not in ("", "/") or "@" in url.netloc or "?" in str(value) or "#" in str(value):
            shown = "(hidden)" if isinstance(value, str) and "@" in value else None
            raise Bad('must be https:// or http://, a host and at most a port: "https://api.stripe.com"', shown)
        tls = url.scheme == "https"
        address = parse_address(url.netloc, 443 if tls else 80)
        if address is None or address.port == 0:
            raise Bad("must name a host, and a port from 1 to 65535 where it names one")
        return Origin(tls, address)


class SecretUrl(SecretText):
    """An http(s) URL that may hold a token, and so is a secret."""

    def read(self, value: object, at: Place) -> object:
        """Read a URL."""
        text = resolve(value, at)
        if _http_url(text) is None:
            raise Bad("must be an http:// or https:// URL")
        return Secret(text)


class Networks(Reader):
    """An IP address or a network in CIDR notation."""

    def read(self, value: object, at: Place) -> object:
        """Read a network; an address is a network of one."""
        del at
        try:
            return ipaddress.ip_network(value if isinstance(value, str) else "-")
        except ValueError:
            raise Bad('must be an IP address or a network such as "10.0.0.0/8"') from None


def _http_url(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        url.port  # noqa: B018 -- Reading it checks it.
    except ValueError:
        return None
    return url if url.scheme in ("http", "https") and url.hostname else None
