"""Adapter files: those that are shipped, and those of the user's own providers."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from proxy.core.adapter import Adapter
from proxy.core.facts_file import BadAdapter, load

SHIPPED: Final = ("stripe", "resend")


def shipped(name: str) -> Adapter:
    """Return an adapter that comes with the product. Raises BadAdapter."""
    file = resources.files("adapters").joinpath(f"{name}.toml")
    return Adapter(load(file.read_text("utf-8"), f"{name}.toml"))


def from_file(path: str) -> Adapter:
    """Read an adapter of the user's. Raises BadAdapter."""
    try:
        text = Path(path).read_text("utf-8")
    except OSError as unreadable:
        raise BadAdapter(f"{path}: it cannot be read: {unreadable.strerror}.") from None
    except ValueError:
        raise BadAdapter(f"{path}: it is not UTF-8 text.") from None
    return Adapter(load(text, path))


def load_all(configured: Mapping[str, str | None]) -> dict[str, Adapter]:
    """Return the adapter of each configured provider: its own file, or the shipped one. Raises BadAdapter.

    A provider is called what the configuration calls it: types and metrics bear that name.
    """
    out = {}
    for name, path in configured.items():
        adapter = shipped(name) if path is None else from_file(path)
        if adapter.name != name:
            raise BadAdapter(f"{path}: provider.name: it is {adapter.name!r}, but the configuration calls it {name!r}.")
        out[name] = adapter
    return out
