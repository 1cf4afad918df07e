"""The vault: what is kept is sealed by AES-256-GCM, what is compared is a keyed digest (port `Vault`).

Every value is sealed by a key of its own, made from the state key and what the value is about: a random nonce of 96
bits may serve 2^32 values of one key (NIST SP 800-38D, section 8.3), which a busy ledger would pass within a year.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_DIGEST_BYTES: Final = 16


class _Key:
    """One state key, as the three it stands for: its name, what seals, what digests."""

    __slots__ = ("digests", "name", "seals")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a state key has {KEY_BYTES} bytes")
        self.name = _derived(key, b"doubtless name", b"")[:_ID_BYTES]
        self.seals = _derived(key, b"doubtless seal", b"")
        self.digests = _derived(key, b"doubtless digs", b"")

    def cipher(self, about: bytes) -> AESGCM:
        return AESGCM(_derived(self.seals, b"doubtless one", about))


class StateVault:
    """A vault of state keys: the first seals, all open. A sealed value is key ID (4 bytes), nonce (12), AES-GCM."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take the keys, the newest first. Raises ValueError where one has not 32 bytes, or there is none."""
        if not keys:
            raise ValueError("a vault needs a state key")
        self._keys = tuple(_Key(key) for key in keys)

    def seal(self, plain: bytes, about: str) -> bytes:
        """Encrypt under the newest key, bound to `about`."""
        key, bound, nonce = self._keys[0], about.encode(), os.urandom(_NONCE_BYTES)
        return key.name + nonce + key.cipher(bound).encrypt(nonce, plain, bound)

    def open(self, sealed: bytes, about: str) -> bytes | None:
        """Decrypt; None where no key of ours made it, or it is about something else, or was changed."""
        bound, name = about.encode(), sealed[:_ID_BYTES]
        nonce, text = sealed[_ID_BYTES : _ID_BYTES + _NONCE_BYTES], sealed[_ID_BYTES + _NONCE_BYTES :]
        if len(text) < _TAG_BYTES:
            return None
        for key in self._keys:
            if key.name == name:
                try:
                    return key.cipher(bound).decrypt(nonce, text, bound)
                except InvalidTag:
                    continue  # Two keys may bear one name: four bytes are few.
        return None

    def digest(self, data: bytes) -> str:
        """Return the keyed digest of the newest key: BLAKE2b, 128 bits, in hexadecimal."""
        return _digest(self._keys[0], data)

    def digests(self, data: bytes) -> tuple[str, ...]:
        """Return the digest under every key, the newest first."""
        return tuple(_digest(key, data) for key in self._keys)


def _digest(key: _Key, data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES, key=key.digests).hexdigest()


def _derived(key: bytes, use: bytes, about: bytes) -> bytes:
    """Return a key for one use: BLAKE2b as a keyed pseudo-random function, `use` its personalisation (RFC 7693)."""
    return hashlib.blake2b(about, digest_size=KEY_BYTES, key=key, person=use).digest()
