"""Where a provider is reached."""

import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """A provider's upstream: `scheme` http or https, `host` as it is verified, looked up and named in `Host`.

    `tls` is given for https and only there. `prefix` is put before every target, without a slash at its end.
    """

    scheme: str
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.scheme not in _PORTS:
            raise ValueError(f"an upstream is http or https, not {self.scheme!r}")
        if (self.scheme == "https") != (self.tls is not None):
            raise ValueError("https needs a TLS context, and http takes none")
        if self.prefix and (not self.prefix.startswith("/") or self.prefix.endswith("/")):
            raise ValueError(f"a prefix begins with a slash and does not end with one: {self.prefix!r}")
        _ = self.authority  # A name that IDNA refuses is refused now (UnicodeError is a ValueError).

    @classmethod
    def parse(cls, url: str, tls: ssl.SSLContext | None = None) -> Self:
        """Read a configured URL; its path becomes the prefix. Raises ValueError."""
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"an upstream is scheme://host[:port][/path], not {url!r}")
        port = parts.port or _PORTS.get(parts.scheme, 0)
        return cls(parts.scheme, parts.hostname, port, tls, parts.path.rstrip("/"))

    @property
    def authority(self) -> bytes:
        """The value of `Host` (RFC 9110, section 7.2): the port only where it is not the scheme's own."""
        host = f"[{self.host}]".encode() if ":" in self.host else self.host.encode("idna")
        return host if self.port == _PORTS[self.scheme] else b"%b:%d" % (host, self.port)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Make a verifying client context, HTTP/1.1 only.

    It trusts the system's roots, or those of `SSL_CERT_FILE` where that is set, and `ca_file` besides.
    Raises OSError (ssl.SSLError is one) where the file cannot be read or holds no certificate.
    """
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
