# expect: [true, true, true, true]
"""Looks for what only some platforms have, and does without."""
import os
import sys


def workers():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def user_name():
    for name in ("LOGNAME", "USER", "USERNAME"):
        if value := os.environ.get(name):
            return value
    return "nobody"


def is_admin():
    try:
        return os.geteuid() == 0
    except AttributeError:
        return False


[workers() >= 1, isinstance(user_name(), str), is_admin() in (True, False), sys.platform != ""]
