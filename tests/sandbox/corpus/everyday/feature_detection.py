# expect: [false, false, true, "icon.png", "plain"]
"""Code that asks what the platform has before it uses it."""
import os
import sys


def resource_path(name):
    base = getattr(sys, "_MEIPASS", os.path.abspath("."))
    return os.path.join(base, name)


def default_workers():
    count = getattr(os, "process_cpu_count", os.cpu_count)
    return max(1, count() or 1)


FROZEN = getattr(sys, "frozen", False)
IS_WINDOWS = os.name == "nt" or sys.platform.startswith("win")
COLOR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(text, code=31):
    return f"\033[{code}m{text}\033[0m" if COLOR else text


[FROZEN, IS_WINDOWS, default_workers() >= 1, os.path.basename(resource_path("icon.png")), paint("plain")]
