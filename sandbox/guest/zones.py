"""Time zones: the guest has no files to read them from, so the builder hands them over in a module."""

import importlib
import io
import zlib
import zoneinfo
from typing import Any


def install() -> None:
    """Make `zoneinfo` read the zones that were built in. Done once, before the snapshot."""
    packed: dict[str, bytes] = importlib.import_module("packed_zones").ZONES

    def load_tzdata(key: str) -> io.BytesIO:
        if key not in packed:
            raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
        return io.BytesIO(zlib.decompress(packed[key]))

    library: Any = importlib.import_module("zoneinfo._common")
    library.load_tzdata = load_tzdata
    library = zoneinfo
    library.available_timezones = lambda: set(packed)
