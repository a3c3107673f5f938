"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """What the kernel answers; OSError if it refuses. Integers are passed in their full width."""
    given = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    answer = int(_syscall(ctypes.c_long(number), *given))
    if answer == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def prctl(option: int, *values: int) -> None:
    """`prctl(2)`; OSError if the kernel refuses."""
    if _libc.prctl(option, *[ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def protect(start: int, size: int, protection: int) -> None:
    """`mprotect(2)`; OSError if the kernel refuses."""
    if _libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_int(protection)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
