"""Reading settings: a reader turns a TOML value into the value that is kept, or says which rule it breaks.

The structs of `model` carry their readers as annotations; `Table` walks them. A value that breaks a rule becomes a
complaint and its setting keeps the default, so that one reading finds everything that is wrong.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, get_args

import msgspec
from msgspec import Struct, structs

from proxy.config.complaint import Complaint
from proxy.core.durations import parse_ms

NOTHING: Final = object()  # What is left of a value after a complaint.
_SHOWN_MAX: Final = 100
INTEGER_MAX: Final = 2**53 - 1  # The largest integer that Lua, JSON and JavaScript all hold exactly.


class Bad(Exception):
    """A value breaks a rule. `shown` stands for the value where it must not be shown as it is."""

    def __init__(self, rule: str, shown: str | None = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.shown = shown


class Broken(Struct, frozen=True):
    """A rule between settings of one section that does not hold; names are relative to the section.

    Nothing is said where one of the settings in `needs` was complained of itself: it holds its default then.
    """

    name: str
    shown: str
    rule: str
    needs: tuple[str, ...] = ()


class Section(Struct, frozen=True, kw_only=True):
    """A table of settings, and the rules between them."""

    def broken(self) -> Iterable[Broken]:
        """Say every rule that does not hold."""
        return ()


class Reading:
    """What is gathered while one configuration is read."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.complaints: list[Complaint] = []
        self.given: set[str] = set()
        self.overridden: dict[str, str] = {}
        self.variables: set[str] = set()
        self.files: list[str] = []
        self.secret_files: list[tuple[str, str]] = []
        self.literals: set[str] = set()  # Settings whose secret stands where it is written.

    def blamed(self, setting: str) -> bool:
        """Was this setting, or a part of it, complained of?"""
        return any(re.match(rf"{re.escape(setting)}(\Z|[.\[])", c.setting) for c in self.complaints)


class Place:
    """Where a value stands: its dotted name, and what is gathered."""

    __slots__ = ("reading", "setting")

    def __init__(self, setting: str, reading: Reading) -> None:
        self.setting = setting
        self.reading = reading

    def inner(self, name: str) -> "Place":
        """Return the place of a setting in this table."""
        return Place(f"{self.setting}.{name}" if self.setting else name, self.reading)

    def item(self, index: int) -> "Place":
        """Return the place of an item of this list."""
        return Place(f"{self.setting}[{index}]", self.reading)

    def complain(self, rule: str, shown: str) -> None:
        """Say which rule the value here breaks."""
        self.reading.complaints.append(Complaint(self.setting, shown, rule))

    def take(self, reader: "Reader", value: object) -> object:
        """Return what the reader makes of the value; NOTHING after a complaint."""
        try:
            return reader.read(value, self)
        except Bad as bad:
            self.complain(bad.rule, bad.shown or reader.show(value))
            return NOTHING


class Reader:
    """Turns a value as written into the value that is kept."""

    secret = False

    def read(self, value: object, at: Place) -> object:
        """Return the value to keep. Raises Bad where a rule is broken."""
        raise NotImplementedError

    def child(self, name: str) -> "tuple[str, Reader] | None":
        """Return a setting of this table, by its name in lower case, with its name as written."""
        del name
        return None

    def from_env(self, raw: str) -> object:
        """Return an environment variable's text as a value: JSON for lists and tables, else the text."""
        if not raw.startswith(("[", "{")):
            return raw
        try:
            return msgspec.json.decode(raw)
        except msgspec.DecodeError:
            raise Bad("must be JSON where it begins with [ or {", "(not shown)") from None

    def show(self, value: object) -> str:
        """Show the value in a complaint."""
        return _hidden(value) if self.secret else plainly(value)


def plainly(value: object) -> str:
    """Show a value that is no secret: text quoted and cut, of lists and tables only what they are."""
    match value:
        case str():
            text = json.dumps(value, ensure_ascii=False)
            return text if len(text) <= _SHOWN_MAX else f'{text[:_SHOWN_MAX]}…"'
        case bool():
            return "true" if value else "false"
        case dict():
            return "(a table)"
        case list():
            return "(a list)"
        case _:
            return str(value)


def _hidden(value: object) -> str:
    reference = isinstance(value, str) and value.startswith(("env:", "file:"))
    return plainly(value) if reference else "(hidden)"


class Text(Reader):
    """A string that matches a pattern. Without a pattern any will do."""

    def __init__(self, pattern: str = r"[^\x00-\x1f\x7f]*", rule: str = "must not hold control characters") -> None:
        self.pattern = re.compile(pattern)
        self.rule = rule

    def read(self, value: object, at: Place) -> object:
        """Read a string."""
        del at
        if not isinstance(value, str):
            raise Bad("must be a string")
        if not self.pattern.fullmatch(value):
            raise Bad(self.rule)
        return value

    def from_env(self, raw: str) -> object:
        """Take the text as it is."""
        return raw


class Choice(Text):
    """One of a few words: those of a Literal type."""

    def __init__(self, literal: object) -> None:
        self.words: tuple[str, ...] = get_args(literal)
        super().__init__("|".join(map(re.escape, self.words)), f"must be one of {', '.join(self.words)}")


class Duration(Text):
    """A duration as people write it, kept in milliseconds."""

    def __init__(self, least_ms: int = 1) -> None:
        super().__init__()
        self.least_ms = least_ms

    def read(self, value: object, at: Place) -> object:
        """Read a duration."""
        del at
        ms = parse_ms(value) if isinstance(value, str) else None
        if ms is None:
            raise Bad('must be a duration: a number and ms, s, m, h or d, such as "300ms", "1.3s" or "20h"')
        if ms < self.least_ms:
            raise Bad(f"must be at least {self.least_ms} ms")
        if ms > INTEGER_MAX:
            raise Bad("must be shorter")
        return ms


class Whole(Reader):
    """A whole number between two bounds, both included."""

    def __init__(self, least: int = 0, most: int = INTEGER_MAX) -> None:
        self.least = least
        self.most = most

    def read(self, value: object, at: Place) -> object:
        """Read a whole number."""
        del at
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise Bad(f"must be a whole number from {self.least} to {self.most}")
        return value

    def from_env(self, raw: str) -> object:
        """Take a number in JSON, else the text, which is then complained of."""
        try:
            return msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return raw


class Flag(Whole):
    """True or false."""

    def read(self, value: object, at: Place) -> object:
        """Read a truth value."""
        del at
        if not isinstance(value, bool):
            raise Bad("must be true or false")
        return value


class Each(Reader):
    """A list, kept as a tuple. Where its items are strings, a single string stands for a list of one."""

    def __init__(self, item: Reader, least: int = 0) -> None:
        self.item = item
        self.least = least
        self.secret = item.secret

    def read(self, value: object, at: Place) -> object:
        """Read every item."""
        if isinstance(value, str) and not isinstance(self.item, Table):
            value = [value]
        if not isinstance(value, list):
            tables = isinstance(self.item, Table)
            raise Bad("must be a list of tables" if tables else "must be a list", "(no list)")
        if len(value) < self.least:
            raise Bad(f"must have at least {self.least} item{'s' * (self.least > 1)}")
        kept = [at.item(index).take(self.item, item) for index, item in enumerate(value)]
        return tuple(item for item in kept if item is not NOTHING)


class Table(Reader):
    """A table whose settings are the fields of a section, or of a value of that section that holds the defaults."""

    def __init__(self, made: type[Section], default: Section | None = None) -> None:
        self.made = made
        self.default = default
        self.fields = {f.encode_name: (f, reader) for f in structs.fields(made) if (reader := _reader(f.type))}

    def read(self, value: object, at: Place) -> object:
        """Read every setting, then the rules between them; NOTHING where one that is required is missing."""
        if not isinstance(value, dict):
            raise Bad("must be a table", "(no table)")
        kept: dict[str, object] = {}
        for name, inner in value.items():
            if name in self.fields:
                field, reader = self.fields[name]
                at.reading.given.add(at.inner(name).setting)
                if (got := at.inner(name).take(reader, inner)) is not NOTHING:
                    kept[field.name] = got
            else:
                self._unknown(name, at)
        missing = [name for name, (field, _) in self.fields.items() if field.required and field.name not in kept]
        for name in missing:
            if name not in value:
                at.inner(name).complain("is required", "(not set)")
        if missing:
            return NOTHING
        made = self.made(**kept) if self.default is None else structs.replace(self.default, **kept)
        for broken in [b for b in made.broken() if not self._blamed(b, at)]:
            at.inner(broken.name).complain(broken.rule, broken.shown)
        return made

    def child(self, name: str) -> tuple[str, Reader] | None:
        """Return the setting of that name."""
        return (name, self.fields[name][1]) if name in self.fields else None

    def _blamed(self, broken: Broken, at: Place) -> bool:
        return any(at.reading.blamed(at.inner(name).setting) for name in (broken.name, *broken.needs))

    def _unknown(self, name: str, at: Place) -> None:
        """The value is not shown: it may be a secret under a misspelt name."""
        near = difflib.get_close_matches(name, self.fields, n=1, cutoff=0.75)
        what = "is not a setting" if at.setting else "is not a section"
        at.inner(name).complain(what + (f"; did you mean {near[0]}?" if near else ""), "(not shown)")


def _reader(annotation: object) -> Reader | None:
    return next((part for part in get_args(annotation) if isinstance(part, Reader)), None)
