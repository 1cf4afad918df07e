"""What a request's target says: which provider, which path there, and which event."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from proxy.core import answers
from proxy.core.adapter import Adapter
from proxy.core.answers import Code
from proxy.core.http import Headers, first
from proxy.engine.asking import Refusal

PAGE: Final = "/_doubtless/"


class Place(Struct, frozen=True):
    """Where a request goes: the provider and its own raw target there, and the event of the URL, percent-encoded."""

    provider: str
    target: str
    url_event: str | None = None


class Page(Struct, frozen=True):
    """A page of our own: the path after `/_doubtless/`."""

    path: str


class Ways:
    """The ways in by a plain path: `/<provider>/…`, `/e/<event id>/<provider>/…`, and a provider's own port."""

    def __init__(self, adapters: Mapping[str, Adapter], own_port: str | None, own_listen: Mapping[str, str]) -> None:
        self._adapters = adapters
        self._own_port = own_port
        self._own_listen = own_listen

    def find(self, target: str, headers: Headers, base: str) -> Place | Page:
        """Understand a raw target. Raises Refusal: it leads nowhere."""
        if not target.startswith("/"):
            raise Refusal(answers.own(Code.EGRESS_DENIED, NO_EGRESS))
        if target.startswith(PAGE):
            return Page(target.removeprefix(PAGE))
        if self._own_port is not None:
            return Place(self._own_port, target)
        event, rest = None, target
        if target.startswith("/e/"):
            event, slash, rest = target.removeprefix("/e/").partition("/")
            rest = slash + rest
        name, tail = _first_segment(rest)
        if name not in self._adapters:
            raise Refusal(answers.own(Code.UNKNOWN_PROVIDER, self._hint(headers, base)))
        return Place(name, tail if tail.startswith("/") else "/" + tail, event)

    def _hint(self, headers: Headers, base: str) -> str:
        """Say what to write, for the SDK that asks if its `User-Agent` tells."""
        agent = (first(headers, b"user-agent") or b"").decode("latin-1")
        for name, adapter in self._adapters.items():
            for part, line in adapter.doc.provider.sdk_lines.items():
                if part in agent and "{port}" in line and name not in self._own_listen:
                    return f"this SDK takes no path: set providers.{name}.listen, a port of its own. Nothing was sent."
                if part in agent:
                    said = self.line(line, base, name)
                    return f"this path names no provider. For this SDK write: {said} . Nothing was sent."
        names = ", ".join(f"{base}/{name}/…" for name in self._adapters)
        return f"this path names no provider; write {names} (the provider's own path follows). Nothing was sent."

    def line(self, template: str, base: str, provider: str) -> str:
        """Fill in the line that points an SDK here."""
        host, _, port = self._own_listen.get(provider, "").rpartition(":")
        return template.replace("{base}", base).replace("{host}", host).replace("{port}", port)


def _first_segment(path: str) -> tuple[str, str]:
    """Split `/stripe/v1/x?y` into `stripe` and `/v1/x?y`; a query may follow at once."""
    rest = path.removeprefix("/")
    for index, char in enumerate(rest):
        if char in "/?":
            return rest[:index], rest[index:]
    return rest, ""


NO_EGRESS: Final = (
    "this proxy does not forward to hosts here: address a provider by its path (/stripe/…, /resend/…). No connection "
    "was made."
)
