"""Secrets: where they come from, and a type that does not show them."""

import base64
import re
from pathlib import Path
from typing import Final

from proxy.config.reading import Bad, Place, Reader

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = re.compile(r"([A-Za-z0-9_-]{43})=?")  # 32 bytes.


class Secret:
    """A value that shows itself only where `reveal` is written."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def key_bytes(text: str) -> bytes | None:
    """Decode a state key: 32 bytes in base64url, padded or not; None where it is something else."""
    match = _KEY.fullmatch(text.strip())
    return base64.urlsafe_b64decode(f"{match[1]}=") if match else None


def resolve(value: object, at: Place) -> str:
    """Return what `env:NAME`, `file:PATH` or a literal stands for, and note the variable or the file.

    A file's surrounding white space is dropped: editors end files with a newline.
    """
    if not isinstance(value, str):
        raise Bad('must be a string: "env:NAME", "file:PATH" or the secret itself')
    source, _, name = value.partition(":")
    if source == "env":
        return _from_variable(name, at)
    if source == "file":
        return _from_file(name, at)
    at.reading.literals.add(at.setting)
    if not value.strip():
        raise Bad("must not be empty")
    return value


def _from_variable(name: str, at: Place) -> str:
    if not _VARIABLE.fullmatch(name):
        raise Bad("must name an environment variable: letters, digits and underscores")
    at.reading.variables.add(name)
    text = at.reading.environ.get(name)
    if text is None:
        raise Bad(f"the environment variable {name} is not set")
    if not text.strip():
        raise Bad(f"the environment variable {name} is empty")
    return text.strip()


def _from_file(name: str, at: Place) -> str:
    at.reading.files.append(name)
    at.reading.secret_files.append((at.setting, name))
    try:
        text = Path(name).read_text("utf-8").strip()
    except OSError as error:
        raise Bad(f"the file cannot be read: {error.strerror}") from None
    except ValueError:
        raise Bad("the file is not UTF-8 text") from None
    if not text:
        raise Bad("the file is empty")
    return text


class SecretText(Reader):
    """A secret of any shape."""

    secret = True

    def read(self, value: object, at: Place) -> object:
        """Read a secret."""
        return Secret(resolve(value, at))

    def from_env(self, raw: str) -> object:
        """Take the variable's text as it is: a secret may begin like JSON."""
        return raw


class StateKey(SecretText):
    """A secret that is 32 bytes in base64url."""

    def read(self, value: object, at: Place) -> object:
        """Read a state key."""
        text = resolve(value, at)
        if key_bytes(text) is None:
            raise Bad("must be 32 bytes in base64url (43 characters, or 44 with the padding)")
        return Secret(text)


class SecretByAccount(SecretText):
    """One secret for all accounts, or a table of them by account; kept as a table where `*` stands for all."""

    def read(self, value: object, at: Place) -> object:
        """Read one secret or a table."""
        one = SecretText()
        table = value if isinstance(value, dict) else {"*": value}
        got = {
            str(account): (at if value is not table else at.inner(str(account))).take(one, part)
            for account, part in table.items()
        }
        return {account: secret for account, secret in got.items() if isinstance(secret, Secret)}

    def from_env(self, raw: str) -> object:
        """Take a JSON table, or one secret as it is."""
        return Reader.from_env(self, raw) if raw.startswith("{") else raw
