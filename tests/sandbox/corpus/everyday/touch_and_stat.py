# expect: [true, 0, true, "3KB", "xx", true, true, false]
import os
import time
from pathlib import Path


def newer(a, b):
    return a.stat().st_mtime >= b.stat().st_mtime


def human(size):
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f}{unit}"
        size /= 1024
    return f"{size:.1f}GB"


first, second = Path("first.lock"), Path("second.dat")
first.touch()
second.write_bytes(b"x" * 3000)
age = time.time() - os.path.getmtime("second.dat")
with second.open("rb") as file:
    size = file.seek(0, os.SEEK_END)
    file.seek(-2, os.SEEK_CUR)
    tail = file.read().decode()
first.touch(exist_ok=True)
[first.exists(), first.stat().st_size, newer(second, first) or newer(first, second), human(size), tail, -5 < age < 3600, second.is_file(), os.path.isdir("first.lock")]
