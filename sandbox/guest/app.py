"""The image's entry. Whatever is imported or done here, while the image is built, is part of its memory snapshot."""

import base64
import contextlib
import encodings.aliases
import gc
import importlib
import io
import json
import marshal
import posix
import sys
from collections.abc import Iterator
from functools import partial

SKIP = set(
    "antigravity idlelib tkinter turtle turtledemo test ensurepip venv pydoc_data curses ctypes "
    "multiprocessing webbrowser readline resource syslog termios tty pty pwd grp fcntl ssl nt pip".split()
)
ENCODINGS = (
    "charmap raw_unicode_escape unicode_escape undefined utf_16_be utf_16_le utf_32_be utf_32_le utf_8_sig".split()
)
# What the library imports only when it needs it; later there is nothing to import it from.
SUBMODULES = (
    "_ast_unparse _pydatetime _pydecimal _pylong _strptime asyncio.taskgroups asyncio.timeouts collections.abc "
    "compression.gzip "
    "compression.zlib concurrent.futures concurrent.futures.process concurrent.futures.thread email.message "
    "email.mime.application "
    "email.mime.audio email.mime.base email.mime.image email.mime.message email.mime.multipart email.mime.nonmultipart "
    "email.mime.text encodings.idna encodings.punycode html.entities html.parser http.cookiejar http.cookies "
    "importlib.metadata "
    "importlib.resources json.tool logging.config logging.handlers os.path pathlib.types string.templatelib "
    "sqlite3.dump dbm.dumb dbm.sqlite3 this unittest._log "
    "unittest.async_case unittest.mock urllib.error urllib.parse xml.dom.expatbuilder xml.dom.minidom xml.dom.pulldom "
    "xml.etree.ElementInclude xml.etree.ElementPath xml.etree.ElementTree xml.sax.expatreader xml.sax.handler "
    "xml.sax.saxutils zoneinfo"
).split()


def _import_stdlib() -> None:
    names = [name for name in sorted(sys.stdlib_module_names) if not name.startswith("_") and name not in SKIP]
    codecs_ = [f"encodings.{name}" for name in {*encodings.aliases.aliases.values(), *ENCODINGS}]
    for name in names + SUBMODULES + sorted(codecs_):
        # What is not in this build of CPython is refused by name.
        with (
            contextlib.suppress(ImportError, AttributeError, NotImplementedError),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            importlib.import_module(name)


def _import_packages() -> None:
    """The pure-Python packages baked into a project image; the builder lists them in a module of its own."""
    try:
        baked = importlib.import_module("baked_packages")
    except ImportError:
        return
    for name in baked.MODULES:
        importlib.import_module(name)
    for name in baked.SUBMODULES:
        # What is not in the snapshot can't be imported later; an optional part that needs more stays out.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


# First what every run uses: its objects then lie close together, and a run writes to fewer pages of the snapshot.
from guest import census, databases, everyday, facades, files, layout, loop, runner, supplements  # noqa: E402

_import_stdlib()
_import_packages()
files.install()
databases.install()
loop.install_locks()
loop.install()
supplements.install()
facades.install()

import wit_world  # noqa: E402  (made by componentize-py)

FIELDS: dict[str, object] = {
    "session": False,
    "entry": None,
    "examine": None,
    "cut": False,
    "call_bytes": 10**6,
    "call_values": 10**4,
    "fresh": True,
    "tools": ["a.b"],
    "files": {},
    "seed": 10**18,
    "marked": False,
    "stdout": 100,
    "result_bytes": 10**6,
    "file_bytes": 10**6,
}


def _request(source: str, code: str | None = None, **fields: object) -> str:
    return json.dumps({"source": source, "code": code, "inputs": {"n": 1}, **FIELDS, **fields})


def _prepared(source: str, **fields: object) -> str:
    return _request(source, base64.b64encode(marshal.dumps(runner.prepare(source))).decode(), **fields)


# An expression, a composed tool and a tool call, each compiled before; then a program that is new. A run that is like
# one of them takes no page fault.
TOUCHES = (
    _prepared("1+1"),
    _prepared('def f(n: int) -> int:\n    """About it."""\n    return 2 * n\n', entry="f"),
    _prepared("found = await tools.a.b(q=n)\nfound"),
    _request(everyday.TOUCH),
)
# Programs of other kinds: a page that several of them write to is worth keeping too.
KINDS = tuple(_prepared(source) for source in everyday.KINDS)


def touch() -> str:
    """Write to the pages that most runs write to, and say by which requests others are found. Runs only this image's
    own code, whose one call is answered by whoever asked for it, and leaves no trace of it.

    The C library's descriptors are closed, since nothing is behind them: a write to one fails instead of trapping.
    """
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            posix.close(descriptor)
    for request in TOUCHES:
        _expect("completed", runner.run(request))
    return "\n".join(TOUCHES + KINDS)


def settle() -> str:
    """What a new guest does first: `touch`, and fill the holes that it has left in the heap."""
    requests = touch()
    runner.forget()
    _plug_holes(1 << 12)
    runner.stock()
    _plug_holes(1 << 8)
    gc.freeze()
    return requests


class WitWorld(wit_world.WitWorld):  # type: ignore[misc]
    def run(self, request: str) -> str:
        return runner.run(request) if request else settle()


def _expect(status: str, answer: str) -> None:
    if json.loads(answer.partition("\0")[0])["status"] != status:
        sys.stderr = sys.__stderr__
        raise SystemExit(f"the guest can't run its own code: {answer}")


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """While the image is built, nobody is there to answer calls."""
    exchange, write = wit_world.exchange, wit_world.write

    def answer(message: str) -> str:
        _, _, body = message.partition("\n")
        calls = json.loads(body)[0] if body else []
        return "1.000000000\n" + json.dumps([[call[0], 1, {"a": [1]}] for call in calls])

    wit_world.exchange, wit_world.write = answer, len
    try:
        yield
    finally:
        wit_world.exchange, wit_world.write = exchange, write


def _warm_up(times: int) -> None:
    """Run often enough that CPython has specialised the code every run goes through: the snapshot keeps that."""
    for _ in range(times):
        for status, request in (
            ("completed", _request("print('a', n)\nx = await tools.a.b(q=n)\n[y for y in x['a']]")),
            (
                "completed",
                _request("import asyncio\nsum(len(z) for z in await asyncio.gather(tools.f(1), tools.g(2)))"),
            ),
            ("completed", _request(everyday.LIBRARY)),
            ("completed", _request("async def f(n: int) -> list[int]:\n    return [n]", entry="f")),
            ("completed", _request("if n:\n    return n")),
            ("completed", _request("open('a','w').write('b')\nopen('a').read()", files={"c": "aGk="})),
            ("error", _request("1/0")),
            ("error", _request("nme")),
            ("refused", _request("import os\nos.system('x')")),
            *(("completed", request) for request in KINDS),
        ):
            _expect(status, runner.run(request))
        touch()
        gc.collect()  # or what they leave behind makes the snapshot larger


def _gather_code() -> None:
    """Lay what runs write to side by side: first what the shortest one does."""
    layout.gather(layout.executed())  # by imports alone: from here on, what has run is what runs execute
    _warm_up(30)
    codes = layout.executed()
    ordered = [code for request in TOUCHES for code in layout.written(codes, partial(runner.run, request))]
    ordered += layout.written(codes, partial(_warm_up, 1)) + codes
    _plug_holes(1 << 18)
    layout.gather(ordered)


HEAD_ROOM = 8 << 20  # of heap that is free in the snapshot: memory that a run grows can't be taken back


NUMBERS = 200  # more than CPython keeps of those that it has no use for
plugs: list[object] = []


def _plug_holes(most: int) -> None:
    """Fill the free blocks that are scattered over the heap, up to a number of them.

    A run then allocates from fresh, adjacent memory: it writes to a third fewer pages of the snapshot, each of which
    costs a copy in every guest. The allocator goes behind all that is in use only where no hole is large enough: what
    it gives from there is let go of again, and holes of that size are no more.
    """
    gc.collect()
    kept: list[object] = [None] * most
    kept[:NUMBERS] = [1 << 20 | number for number in range(NUMBERS)]
    plugs.append(kept)
    header, behind, count = sys.getsizeof(b""), id(bytes(1 << 20)), NUMBERS
    for step in [*range(71, 64, -1), *range(64, 0, -1)]:  # small numbers, which take no memory
        size = 1024 << step - 64 if step > 64 else 16 * step
        while count < most:
            plug = bytes(size - header) if size > header else object()
            if id(plug) >= behind:
                break
            kept[count] = plug
            count += 1
    del kept[count:]


everyday.settle_classes()
with _answered():
    _gather_code()
    _warm_up(60)
runner.forget()
sys._clear_type_cache()  # what it holds is names that lie all over the heap
gc.collect()
census.take()
_plug_holes(1 << 18)
gc.freeze()
bytearray(HEAD_ROOM)  # let go of at once: the allocator keeps it
