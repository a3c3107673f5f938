# expect: [[], "/home/guest", "/home/guest/notes.txt", true]
"""Tries for what only some builds and platforms have, and does without."""
import os
from pathlib import Path

found = []
try:
    import fcntl
    found.append("fcntl")
except ImportError:
    fcntl = None
try:
    import readline
    found.append("readline")
except ImportError:
    pass
try:
    import msvcrt
    found.append("msvcrt")
except ImportError:
    try:
        import termios
        found.append("termios")
    except ModuleNotFoundError:
        pass
    except ImportError:
        pass
try:
    import resource
    found.append("resource")
except ImportError:
    resource = None
try:
    import lzma
    found.append("lzma")
except ImportError:
    lzma = None

[found, str(Path.home()), os.path.expanduser("~/notes.txt"), Path("~").expanduser() == Path.cwd()]
