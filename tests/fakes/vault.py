"""A Vault without cryptography worth the name: what it seals cannot be read by accident, and repeats itself."""

import hashlib

from tests.fakes.fuse import Fuse

NAME_BYTES = 4


class PlainVault:
    """The Vault port under keys that are words; the newest comes first."""

    def __init__(self, *keys: str) -> None:
        self._keys = tuple(key.encode() for key in keys or ("newest", "older"))
        self.fuse = Fuse()

    def seal(self, plain: bytes, about: str) -> bytes:
        """See the port."""
        self.fuse.touch("vault.seal")
        return _name(self._keys[0]) + _masked(self._keys[0], about, plain)

    def open(self, sealed: bytes, about: str) -> bytes | None:
        """See the port. What is sealed begins with a check of what it is about."""
        self.fuse.touch("vault.open")
        for key in self._keys:
            if sealed[:NAME_BYTES] == _name(key):
                return _unmasked(key, about, sealed[NAME_BYTES:])
        return None

    def digest(self, data: bytes) -> str:
        """See the port."""
        return self.digests(data)[0]

    def digests(self, data: bytes) -> tuple[str, ...]:
        """See the port."""
        return tuple(hashlib.blake2b(data, digest_size=16, key=key).hexdigest() for key in self._keys)


def _name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=NAME_BYTES).digest()


def _masked(key: bytes, about: str, plain: bytes) -> bytes:
    text = hashlib.blake2b(about.encode(), digest_size=NAME_BYTES).digest() + plain
    mask = hashlib.shake_128(key + about.encode()).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, mask, strict=True))


def _unmasked(key: bytes, about: str, masked: bytes) -> bytes | None:
    mask = hashlib.shake_128(key + about.encode()).digest(len(masked))
    text = bytes(a ^ b for a, b in zip(masked, mask, strict=True))
    bound = hashlib.blake2b(about.encode(), digest_size=NAME_BYTES).digest()
    return text[NAME_BYTES:] if text.startswith(bound) else None
