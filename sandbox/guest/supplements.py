"""What this build of CPython lacks: `hashlib.pbkdf2_hmac`, for want of OpenSSL, and files to read time zones from."""

import hashlib
import importlib
import io
import zlib
import zoneinfo
from typing import Any

INNER = bytes(x ^ 0x36 for x in range(256))
OUTER = bytes(x ^ 0x5C for x in range(256))


def pbkdf2_hmac(hash_name: str, password: Any, salt: Any, iterations: int, dklen: int | None = None) -> bytes:
    """Password based key derivation function 2 (PKCS #5 v2.0) with HMAC as pseudorandom function."""
    inner, outer = hashlib.new(hash_name), hashlib.new(hash_name)
    size = inner.digest_size if dklen is None else dklen
    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    if size < 1:
        raise ValueError("key length must be greater than 0.")
    key = bytes(password)
    if len(key) > inner.block_size:
        key = hashlib.new(hash_name, key).digest()
    key = key.ljust(inner.block_size, b"\0")
    inner.update(key.translate(INNER))
    outer.update(key.translate(OUTER))

    def authenticate(message: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(message)
        second.update(first.digest())
        return second.digest()

    made = b""
    block = 0
    while len(made) < size:
        block += 1
        last = authenticate(bytes(salt) + block.to_bytes(4, "big"))
        mixed = int.from_bytes(last, "big")
        for _ in range(iterations - 1):
            last = authenticate(last)
            mixed ^= int.from_bytes(last, "big")
        made += mixed.to_bytes(inner.digest_size, "big")
    return made[:size]


def install() -> None:
    """Offer it where it belongs. Done once, before the snapshot."""
    library: Any = hashlib
    library.pbkdf2_hmac = pbkdf2_hmac
    _install_zones()


def _install_zones() -> None:
    """Make `zoneinfo` read the zones that the builder hands over in a module."""
    packed: dict[str, bytes] = importlib.import_module("packed_zones").ZONES

    def load_tzdata(key: str) -> io.BytesIO:
        if key not in packed:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zlib.decompress(packed[key]))

    library: Any = importlib.import_module("zoneinfo._common")
    library.load_tzdata = load_tzdata
    library = zoneinfo
    library.available_timezones = lambda: set(packed)
