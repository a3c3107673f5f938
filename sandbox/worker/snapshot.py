"""A used guest made fresh in place: every page that its run wrote to is copied back from a sealed copy.

The zygote takes the copy when its guest is ready for a first run, and maps it privately over the guest's memory. A page
that a run has not written to is then still the copy's; one that it has written to is private to the process, and the
kernel can list those. Copying them back makes the memory the snapshot's, byte for byte. What else an instance has
(globals, tables, handles) no run can change: `images/proof.py` asserts that for each image.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import struct
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from operator import setitem, sub
from typing import Any

from go_ent.sandbox.hardening.seccomp import PAGEMAP_SCAN
from go_ent.sandbox.worker.memory import SNAPSHOT, MemoryMeter

# struct pm_scan_arg of Linux 6.7: size, flags, start, end, walk_end, vec, vec_len, max_pages, then four masks.
_SCAN = struct.Struct("@12Q")
_FILE, _PRESENT, _SWAPPED = 4, 8, 16
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, which the mmap module does not name
PAGE = 4096
MOST_REGIONS = 4096
MOST_PAGES = 1024  # that are given back one by one; beyond it all are dropped
MOST_HOT = 242  # pages that a guest keeps while it is idle: 0.99 MB
SHORTEST = 3  # of the runs to learn from: all that they write to is kept
PIECE = 1 << 16
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_madvise = _libc.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_memcmp = _libc.memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_ioctl = _libc.ioctl
_ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]

Regions = list[tuple[int, int]]
_ALL = slice(None)
_set: Callable[[Any, Any, Any], None] = setitem
_exhaust = deque[None](maxlen=0).extend


class Unsupported(Exception):
    """Internal: this kernel can't list the pages that a process has written to. Guests are then made anew."""


def faults() -> tuple[int, int]:
    """How many page faults this thread has taken: a page becomes private by one, and in no other way."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_minflt, usage.ru_majflt


class Snapshot:
    """The memory of a guest that is ready for its first run, and the way back to it.

    Made in the zygote; a worker that is forked off uses it on its own copy of the guest, after `open`.
    """

    def __init__(self, meter: MemoryMeter) -> None:
        """Take the snapshot, and map it over the guest's memory. Raises `Unsupported`."""
        if mmap.PAGESIZE != PAGE:
            raise Unsupported(f"pages of {mmap.PAGESIZE} bytes")
        if not meter.end:
            raise Unsupported("the kernel has no PROCMAP_QUERY")
        self._first, self._end = meter.first, meter.end
        self._pagemap = -1
        regions = (ctypes.c_uint64 * (3 * MOST_REGIONS))()
        self._regions = memoryview(regions).cast("B").cast("Q")
        self._scan_order = ctypes.create_string_buffer(_SCAN.size)
        masks = _FILE, _FILE, _PRESENT | _SWAPPED, 0
        at = ctypes.addressof(regions)
        _SCAN.pack_into(self._scan_order, 0, _SCAN.size, 0, self._first, self._end, 0, at, MOST_REGIONS, 0, *masks)
        self._written: list[set[int]] = []  # the pages that each run wrote to from which to learn
        self._hot: Regions = []
        self._used: list[memoryview] = []  # the hot pages, while they are private
        self._fresh: list[memoryview] = []  # and what was there
        try:
            self.open()
            if self._scan() is None:
                raise Unsupported("the kernel has no PAGEMAP_SCAN")
            self._pristine = self._take()
        except (OSError, Unsupported) as error:  # a kernel, or a container, that does not allow it
            if self._pagemap >= 0:
                os.close(self._pagemap)
            if isinstance(error, Unsupported):
                raise
            raise Unsupported(f"its pages can't be listed or copied: {error.strerror}") from None
        self._before, self._now = self._view(self._pristine), self._view(self._first)

    def _take(self) -> int:
        """Where the copy is mapped for reading. It is sealed: nobody can ever write to it again."""
        size = self.size
        file = os.memfd_create(SNAPSHOT, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, size)
            memory, zeros = self._view(self._first), ctypes.create_string_buffer(PIECE)
            for at in range(0, size, PIECE):  # what is all zeros stays a hole
                if _memcmp(self._first + at, ctypes.addressof(zeros), min(PIECE, size - at)):
                    os.pwrite(file, memory[at : at + PIECE], at)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
            pristine = _mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
            over = mmap.MAP_PRIVATE | 0x10  # MAP_FIXED
            writable = mmap.PROT_READ | mmap.PROT_WRITE
            if pristine in (None, ctypes.c_void_p(-1).value) or (
                _mmap(self._first, size, writable, over, file, 0) != self._first
            ):
                raise Unsupported(os.strerror(ctypes.get_errno()))
        finally:
            os.close(file)
        return int(pristine)

    def _view(self, address: int) -> memoryview:
        return memoryview((ctypes.c_char * self.size).from_address(address)).cast("B")

    def open(self) -> int:
        """The descriptor that this process's pages are listed by; a worker opens one of its own before its walls."""
        if self._pagemap >= 0:
            os.close(self._pagemap)
        self._pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        return self._pagemap

    def learn(self) -> None:
        """Note which pages the run wrote to, and give them back."""
        private = self._scan() or []
        self._written.append({page for start, end in private for page in range(start, end, PAGE)})
        for start, end in private:
            _drop(start, end - start)

    def choose(self) -> None:
        """Keep the pages that the shortest runs wrote to, and those that most runs did, as far as there is room."""
        shortest = set[int]().union(*self._written[:SHORTEST])
        times = Counter(page for pages in self._written for page in pages)
        self._written.clear()
        ranked = sorted(times, key=lambda page: (page not in shortest, -times[page], page))
        self._hot = []
        for page in sorted(ranked[:MOST_HOT]):
            if self._hot and self._hot[-1][1] == page:
                self._hot[-1] = self._hot[-1][0], page + PAGE
            else:
                self._hot.append((page, page + PAGE))
        self.give_back()

    def warm_up(self) -> None:
        """Have the pages that most runs write to made private before a run, which then takes no faults for them."""
        for start, end in self._hot:
            _madvise(start, end - start, POPULATE_WRITE)
        spans = [slice(start - self._first, end - self._first) for start, end in self._hot]
        self._used, self._fresh = [self._now[span] for span in spans], [self._before[span] for span in spans]

    @property
    def size(self) -> int:
        """A guest whose memory has another size can't be taken back: it has grown, and memory never shrinks."""
        return self._end - self._first

    def restore(self, *, unmoved: bool) -> None:
        """Make the memory that of the snapshot. *unmoved*: the run has taken no page fault.

        The hot pages are private then, and no others: which ones the run wrote to is not to be read from the time that
        the next run takes for them.
        """
        if not unmoved or not self._used:
            private = self._scan() if self._used else None  # none: they were given back while it was idle
            if private is None or sum(starmap(sub, private)) < -MOST_PAGES * PAGE:
                self.give_back()
                self.warm_up()
                return
            for start, end in self._beyond_hot(private):
                _drop(start, end - start)
        # By the hundred, so without a turn of the interpreter for each.
        _exhaust(map(_set, self._used, repeat(_ALL), self._fresh))

    def _beyond_hot(self, private: Regions) -> Iterator[tuple[int, int]]:
        """What is private besides the hot pages, which always are."""
        hot = self._hot
        for start, end in set(private).difference(hot):  # most regions are the hot ones, no more and no less
            at = start
            for first, last in hot[bisect_left(hot, (start, 0)) : bisect_left(hot, (end, 0))]:
                if at < first:
                    yield at, first
                at = last
            if at < end:
                yield at, end

    def difference(self) -> str:
        """Where the memory is not the snapshot's; "" if it is the same, all of it."""
        size = self.size
        if _memcmp(self._first, self._pristine, size) == 0:
            return ""
        for at in range(0, size, PAGE):
            if _memcmp(self._first + at, self._pristine + at, PAGE):
                return f"memory at {at:#x}"
        raise AssertionError("all pages are the same, and yet they differ")

    def give_back(self) -> None:
        """Give all private pages back to the system: what is left is the snapshot."""
        _drop(self._first, self.size)
        self._used = self._fresh = []

    def _scan(self) -> Regions | None:
        """The private pages, as regions; None if there are too many, or the kernel can't tell."""
        count = _ioctl(self._pagemap, PAGEMAP_SCAN, ctypes.addressof(self._scan_order))
        if not 0 <= count < MOST_REGIONS:
            return None
        flat = self._regions[: 3 * count].tolist()
        return list(zip(flat[0::3], flat[1::3], strict=True))


def _drop(start: int, size: int) -> None:
    if _madvise(start, size, mmap.MADV_DONTNEED):
        raise OSError(ctypes.get_errno(), "the guest's memory can't be taken back")
