"""Readers for what only one or two settings are: header names, paths, credentials, tables by name."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proxy.config.reading import NOTHING, Bad, Place, Reader, Section, Table, Text, Whole, plainly

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2.
_BAGGAGE: Final = re.compile(r"baggage:[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # W3C Baggage: a key is a token.
_PROVIDER: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{32,64}")
_CURRENCY: Final = re.compile(r"[a-z]{3}")
RESERVED: Final = frozenset({"e", "_doubtless"})
NO_EVENT: Final = {
    "traceparent": "names a trace, not what caused the action",
    "tracestate": "names a trace, not what caused the action",
    "authorization": "is a credential",
    "proxy-authorization": "is a credential",
    "cookie": "is a credential",
}


class HeaderName(Text):
    """A header's name. As a source of event IDs also `ce` and `baggage:KEY`; else "" is off."""

    def __init__(self, *, sources: bool = False) -> None:
        super().__init__()
        self.sources = sources

    def read(self, value: object, at: Place) -> object:
        """Read a name."""
        del at
        if not isinstance(value, str) or not self._fits(value):
            raise Bad("must be a header's name" + (', "ce" or "baggage:KEY"' if self.sources else ', or "" for off'))
        if self.sources and (why := NO_EVENT.get(value.lower())):
            raise Bad(f"must not be {value}: it {why}")
        return value

    def _fits(self, value: str) -> bool:
        if self.sources:
            return bool(_TOKEN.fullmatch(value) or _BAGGAGE.fullmatch(value))
        return value == "" or bool(_TOKEN.fullmatch(value))


class PathText(Text):
    """A path, relative to the working directory; "" is none, kept as None."""

    def __init__(self, *, exists: bool = True, off: bool = True) -> None:
        super().__init__()
        self.exists = exists
        self.off = off

    def read(self, value: object, at: Place) -> object:
        """Read a path; a file that has to be there is looked for, and watched."""
        path = super().read(value, at)
        if not isinstance(path, str) or not path:
            if self.off:
                return None
            raise Bad("must not be empty")
        if self.exists:
            at.reading.files.append(path)
            if not Path(path).is_file():
                raise Bad("must be a file that is there")
        return path


class Credentials(Reader):
    """Credentials that stand for each other, by their digests."""

    def read(self, value: object, at: Place) -> object:
        """Read a list of two digests or more."""
        del at
        fits = isinstance(value, list) and all(isinstance(d, str) and _DIGEST.fullmatch(d) for d in value)
        if not isinstance(value, list) or not fits or len(set(value)) < 2:
            raise Bad("must list two or more digests, as `doubtless actions show` prints them (sha256:…)", "(hidden)")
        return tuple(value)


class Amounts(Reader):
    """A table of amounts in minor units, by currency."""

    def read(self, value: object, at: Place) -> object:
        """Read the table."""
        if not isinstance(value, dict):
            raise Bad("must be a table of amounts by currency, such as {usd = 100000}")
        kept: dict[str, object] = {}
        for currency, amount in value.items():
            place = at.inner(currency)
            if not _CURRENCY.fullmatch(currency):
                place.complain("must be named by an ISO 4217 code in lower case", plainly(amount))
            elif (got := place.take(Whole(), amount)) is not NOTHING:
                kept[currency] = got
        return kept


class NamedTables(Reader):
    """Tables by names that people choose, and some that are there without being named."""

    def __init__(self, made: type[Section], shipped: Mapping[str, Section]) -> None:
        self.made = made
        self.shipped = shipped

    def read(self, value: object, at: Place) -> object:
        """Read every table."""
        if not isinstance(value, dict):
            raise Bad("must be tables by name, such as [providers.stripe]", "(no table)")
        kept: dict[str, object] = {**self.shipped}
        for name, inner in value.items():
            place = at.inner(name)
            if name in RESERVED:
                place.complain(f"is a reserved name, as are all of {', '.join(sorted(RESERVED))}", "(not shown)")
            elif not _PROVIDER.fullmatch(name):
                place.complain("must be named by 1 to 63 lower-case letters, digits, - and _", "(not shown)")
            elif (got := place.take(Table(self.made, self.shipped.get(name)), inner)) is not NOTHING:
                kept[name] = got
        return kept

    def child(self, name: str) -> tuple[str, Reader] | None:
        """Return the table of that name, whether it is there or not."""
        return name, Table(self.made, self.shipped.get(name))
