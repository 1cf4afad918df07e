"""Reading a configuration: the file, then the environment over it, and every complaint at once."""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import structs

from proxy.config.complaint import Complaint, Complaints
from proxy.config.model import Config
from proxy.config.reading import Bad, Each, Place, Reader, Reading, Table

_PREFIX: Final = "DOUBTLESS_"
_CONFIG: Final = Table(Config)
_AT: Final = re.compile(r"(.*?) ?\(at (line \d+, column \d+|end of document)\)")


def load(path: str | None, environ: Mapping[str, str]) -> Config:
    """Read the configuration.

    Args:
        path: the TOML file; None where there is none, and all is defaults and environment.
        environ: `DOUBTLESS_<SECTION>__<NAME>` overrides a setting; `env:` secrets are taken from here too.

    Raises:
        Complaints: all that is wrong with it. Nothing in it shows a secret.
    """
    reading = Reading(environ)
    root = Place("", reading)
    raw = {} if path is None else _read(path)
    strangers = [name for name, text in environ.items() if not _override(raw, name, text, reading)]
    config = root.take(_CONFIG, raw)
    for name in strangers:
        if name not in reading.variables:
            reading.complaints.append(Complaint(name, "(not shown)", f"names no setting{_near(name)}"))
    if reading.complaints or not isinstance(config, Config):
        raise Complaints([_with_origin(complaint, reading) for complaint in reading.complaints])
    return structs.replace(
        config,
        given=frozenset(reading.given),
        variables=frozenset(reading.variables),
        files=tuple(dict.fromkeys(([] if path is None else [path]) + reading.files)),
        secret_files=(*reading.secret_files, *_written_out(path, reading)),
    )


def _written_out(path: str | None, reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the secrets that stand in the configuration's own file. A store's URL is none by itself."""
    for setting in sorted(reading.literals - {"store.url"}):
        if path is not None and not any(setting.startswith(variable) for variable in reading.overridden):
            yield setting, path


def _near(variable: str) -> str:
    known = [f"{_PREFIX}{name.upper().replace('.', '__')}" for name in settings()]
    near = difflib.get_close_matches(variable, known, n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else f"; settings are {_PREFIX}<SECTION>__<NAME>"


def _with_origin(complaint: Complaint, reading: Reading) -> Complaint:
    variable = reading.overridden.get(complaint.setting)
    return structs.replace(complaint, rule=f"{complaint.rule} (set by {variable})") if variable else complaint


def settings() -> tuple[str, ...]:
    """Return every setting by its dotted name, as documentation has to list them."""
    return tuple(_names(_CONFIG, ""))


def _names(table: Table, prefix: str) -> list[str]:
    names: list[str] = []
    for name, (_, reader) in table.fields.items():
        inner = reader.item if isinstance(reader, Each) else reader
        if not isinstance(inner, Table):
            child = inner.child("<name>")
            inner = child[1] if child else inner
            name = f"{name}.<name>" if child else name
        names += _names(inner, f"{prefix}{name}.") if isinstance(inner, Table) else [prefix + name]
    return names


def _read(path: str) -> dict[str, object]:
    """Return the file as tables, or raise the one complaint that hides all others."""
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise Complaints([Complaint("--config", f'"{path}"', f"cannot be read: {error.strerror}")]) from None
    except tomllib.TOMLDecodeError as error:
        what, where = match.groups() if (match := _AT.fullmatch(str(error))) else (str(error), "")
        raise Complaints([Complaint(path, where or "(the file)", f"is not TOML: {what}")]) from None
    except UnicodeDecodeError:
        raise Complaints([Complaint(path, "(the file)", "is not UTF-8 text")]) from None


def _override(raw: dict[str, object], variable: str, text: str, reading: Reading) -> bool:
    """Put a variable's value in its place; return False where it looks like a setting and is none.

    Only names with `__` look like one, and those of whole lists (`DOUBTLESS_LIMITS`): Kubernetes makes variables
    such as DOUBTLESS_PORT for a Service of our name.
    """
    if not variable.startswith(_PREFIX):
        return True
    parts = variable.removeprefix(_PREFIX).split("__")
    names: list[str] = []
    reader: Reader = _CONFIG
    for part in parts:
        child = reader.child(_as_written(part, _inner(raw, names)))
        if child is None:
            return len(parts) == 1
        names.append(child[0])
        reader = child[1]
    if len(parts) == 1 and not isinstance(reader, Each):
        return True
    place = Place(".".join(names), reading)
    reading.overridden[place.setting] = variable
    try:
        value = reader.from_env(text)
    except Bad as bad:
        place.complain(bad.rule, bad.shown or reader.show(text))
        return True
    table: object = raw
    for name in names[:-1]:
        table = table.setdefault(name, {}) if isinstance(table, dict) else None
    if isinstance(table, dict):
        table[names[-1]] = value
    return True


def _inner(raw: object, names: list[str]) -> object:
    for name in names:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw


def _as_written(part: str, table: object) -> str:
    """Return the name that a variable's part stands for: one that the table has, else the part in lower case."""
    names = list(table) if isinstance(table, dict) else []
    return next((name for name in names if re.sub(r"[^A-Z0-9]", "_", name.upper()) == part), part.lower())
