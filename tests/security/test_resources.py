"""Code that wants all of something: memory, processor, time, stack, output, room. Each has its limit, and its own
exact end.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable

import pytest

from go_ent.sandbox import Limits, Sandbox
from tests.security.breaking import goes_on
from tests.security.corpus import attack

NEST = "x = []\nfor _ in range(100_000): x = [x]\n"
ROOMY = {"memory_mb": 64, "cpu_s": 15, "timeout_s": 20}


def case(mechanism: str, code: str, *outcome: object) -> object:
    return pytest.param(code, *outcome, marks=attack("resources", mechanism), id=mechanism)


@pytest.mark.parametrize(
    "code",
    [
        case("memory in many small pieces", "x = []\nwhile True: x.append([0])"),
        case("memory in one piece", "bytearray(10**9)"),
        case("a buffer that grows", "b = bytearray()\nwhile True: b.extend(bytes(1 << 20))"),
        case("a text that doubles", "x = 'ab'\nwhile True: x += x"),
        case("a list, multiplied", "[None] * 10**9"),
        case("a shift by ten thousand million", "1 << 10**10"),
        case(
            "digits without end, by decimal",
            "import decimal\ndecimal.getcontext().prec = decimal.MAX_PREC\ndecimal.Decimal(1) / 3",
        ),
        case("a number printed a thousand million wide", "'%1000000000d' % 1"),
        case("a field of a template as wide", "f'{1:>1000000000}'"),
        case("every combination, in a set", "import itertools\nset(itertools.product(range(100), repeat=5))"),
        case("a join of many", "'x'.join(['y' * 1000] * 10**6)"),
        case("a replacement that grows", "import re\nre.sub('x', 'y' * 10**4, 'x' * 10**5)"),
        case("a packed structure of padding", "import struct\nstruct.pack('1000000000x')"),
        case("a result without end", "(x for x in iter(int, 1))"),
        case(
            "a mapping without end, as the result",
            "class M(dict):\n    def items(self):\n        while True: yield 'a', 1\nM(a=1)",
        ),
        case(
            "callbacks without end",
            "import contextlib\ns = contextlib.ExitStack()\nwhile True: s.callback(print, bytes(1000))",
        ),
        case(
            "jobs of threads that are none",
            "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor()\nx = "
            "list(p.map(bytes, [10**4] * 10**6))",
        ),
        case("randomness in one piece", "import os\nos.urandom(1 << 30)"),
        case("inputs that the code makes of inputs", "import json\njson.loads('[' + '[],' * 3_000_000 + '[]]')"),
    ],
)
def test_memory(box: Sandbox, code: str) -> None:
    run = box.run_sync(code, limits=ROOMY)
    assert run.error is not None, str(run.result)[:100]
    assert (run.status, run.error.kind, run.result) == ("memory_limit", "memory_limit", None), run.error
    assert run.error.message == "the run needed more memory than memory_mb=64"
    assert run.usage.memory_peak_bytes <= 64 << 20
    goes_on(box)


@pytest.mark.parametrize(
    "code",
    [
        case("a loop that does nothing", "while True: pass"),
        case("a generator that never tires", "for _ in iter(int, 1): pass"),
        case("one call that never returns", "import itertools\nsum(itertools.count())"),
        case("a pattern that backtracks", "import re\nre.match(r'(a|a)*$', 'a' * 40 + 'b')"),
        case("ten to the ten to the ten", "10 ** 10 ** 10"),
        case("a factorial", "import math\nmath.factorial(10**9)"),
        case("the digits of a huge number", "import sys\nsys.set_int_max_str_digits(0)\nstr(7 ** 3_000_000)"),
        case("a power modulo something large", "pow(3, 10**7, 10**50_000 + 1)"),
        case(
            "fractions that square themselves",
            "from fractions import Fraction\nx = Fraction(1, 3)\nwhile True: x = x * x + 1",
        ),
        case(
            "keys that all hash alike",
            "class K:\n    def __init__(s, n): s.n = n\n    def __hash__(s): return 1\n    def __eq__(s, o): "
            "return s.n == o.n\n"
            "{K(n): n for n in range(10**5)}",
        ),
        case("integers chosen to collide", "{n * (2**31 - 1): n for n in range(10**5)}"),
        case(
            "an order that is never decided",
            "class K:\n    def __lt__(s, o):\n        while True: pass\nsorted([K(), K()])",
        ),
        case(
            "objects that come back",
            "class A:\n    def __del__(self):\n        global a\n        a = self\na = A()\nwhile True: a = None",
        ),
        case(
            "finalizers that make more",
            "class A:\n    def __del__(self): x.append(A())\nx = []\nwhile True:\n    x.append(A())\n    x.clear()",
        ),
        case(
            "memory errors, caught for ever",
            "x = []\nwhile True:\n    try: x.append(bytearray(1 << 22))\n    except MemoryError: pass",
        ),
        case("recursion errors, caught for ever", "def f():\n    try: f()\n    except RecursionError: f()\nf()"),
        case(
            "everything caught, for ever",
            "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        ),
        case("a finally that begins again", "def f():\n    try: f()\n    finally: f()\nf()"),
        case("threads without end", "import threading\nwhile True: threading.Thread(target=int).start()"),
        case("tasks that only yield", "import asyncio\nwhile True: await asyncio.sleep(0)"),
        case("sleeps of no length", "import time\nwhile True: time.sleep(0)"),
        case("a look at the clock, for ever", "import time\nwhile time.time() < 1e12: pass"),
        case("randomness in many pieces", "import os\nwhile True: os.urandom(1 << 16)"),
        case("classes without end", "while True: type('A', (), {})"),
        case("a long line of descent", "class A: pass\nfor _ in range(5000): A = type('A', (A,), {})"),
        case("patterns without end", "import re\nn = 0\nwhile True:\n    re.compile(f'a{n}')\n    n += 1"),
        case("an exit that never ends", "import atexit\ndef f():\n    while True: pass\natexit.register(f)\n1"),
        case(
            "a message that is never told",
            "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        ),
        case("a hint that is never found", "class A:\n    def __dir__(self):\n        while True: pass\nA().nothing"),
        case(
            "a value that is never encoded",
            "import decimal\nclass D(decimal.Decimal):\n    def __str__(self):\n        while True: pass\nD(1)",
        ),
        case(
            "a lookup that is never answered",
            "class A:\n    def __getattr__(self, name):\n        while True: pass\nA().x",
        ),
        case("folders within folders", "import os\nfor n in range(900): os.mkdir(f'{n}')\nwhile True: os.listdir('.')"),
    ],
)
def test_processor(box: Sandbox, code: str) -> None:
    run = box.run_sync(code, limits={"cpu_s": 0.08, "timeout_s": 20})
    assert run.error is not None, str(run.result)[:100]
    assert (run.status, run.error.kind, run.result) == ("cpu_limit", "cpu_limit", None), run.error
    assert run.error.message == "the run used more CPU than cpu_s=0.08"
    goes_on(box)


@pytest.mark.parametrize(
    "code",
    [
        case("a sleep of years", "import time\ntime.sleep(1e9)"),
        case("a sleep of no number", "import time\ntime.sleep(float('inf'))"),
        case("a sleep of the event loop's", "import asyncio\nawait asyncio.sleep(1e9)"),
        case(
            "a cancelled sleep that is slept again",
            "import asyncio\nwhile True:\n    try: await asyncio.sleep(1e6)\n    except BaseException: pass",
        ),
        case("a sleep behind a shield", "import asyncio\nawait asyncio.shield(asyncio.sleep(1e6))"),
        case("an event, waited for with patience", "import threading\nthreading.Event().wait(1e6)"),
        case("a tool that does not answer", "await tools.echo('x', delay=1e6)"),
        case(
            "a timer that sets itself anew",
            "import asyncio\nloop = asyncio.get_running_loop()\ndef again(): loop.call_later(1000, again)\nagain()\n"
            "await asyncio.sleep(1e6)",
        ),
        case("a schedule without end", "import sched\ns = sched.scheduler()\ns.enter(1e6, 1, print)\ns.run()"),
    ],
)
def test_time(box: Sandbox, code: str) -> None:
    run = box.run_sync(code, limits={"timeout_s": 0.1})
    assert run.error is not None, str(run.result)[:100]
    assert (run.status, run.error.kind, run.result) == ("timeout", "timeout", None), run.error
    assert run.error.message == "the run took longer than timeout_s=0.1"
    goes_on(box)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        case("functions that call themselves", "def f(): f()\nf()", "maximum recursion depth exceeded"),
        case(
            "a coroutine that awaits itself", "async def f(): await f()\nawait f()", "maximum recursion depth exceeded"
        ),
        case(
            "generators within generators",
            "def g(n): yield from g(n + 1)\nnext(g(0))",
            "maximum recursion depth exceeded",
        ),
        case(
            "a property of itself",
            "class A:\n    @property\n    def x(self): return self.x\nA().x",
            "maximum recursion depth exceeded",
        ),
        case("the repr of what is nested", NEST + "repr(x)", "Stack overflow"),
        case("the JSON of what is nested", NEST + "import json\njson.dumps(x)", "Stack overflow"),
        case("JSON that nests", "import json\njson.loads('{\"a\":' * 100_000)", ""),
        case("the pickle of what is nested", NEST + "import pickle\npickle.dumps(x)", "Stack overflow"),
        case(
            "a deep copy of what is nested", NEST + "import copy\ncopy.deepcopy(x)", "maximum recursion depth exceeded"
        ),
        case("a comparison of what is nested", NEST + "y = []\nfor _ in range(100_000): y = [y]\nx == y", ""),
        case("the hash of what is nested", "x = ()\nfor _ in range(100_000): x = (x,)\nhash(x)", ""),
        case(
            "an expression for the parser",
            "import ast\nast.parse('-' * 100_000 + '1')",
            "the code nests too deeply for the parser",
        ),
        case("source that nests", "(" * 300 + ")" * 300, "the code nests too deeply for the parser"),
        case(
            "a pattern that nests", "import re\nre.compile('(' * 5000 + ')' * 5000)", "maximum recursion depth exceeded"
        ),
        case(
            "a document that nests",
            "import xml.etree.ElementTree as E\nE.tostring(E.fromstring('<a>' * 50_000 + '</a>' * 50_000))",
            "",
        ),
    ],
)
def test_stack(box: Sandbox, code: str, message: str) -> None:
    run = box.run_sync(code, limits={"cpu_s": 15})
    assert run.error is not None, str(run.result)[:100]
    assert (run.status, run.error.kind, run.result) == ("error", "RecursionError", None), run.error
    assert (message or "the code nests or recurses too deeply: the stack is exhausted") in run.error.message
    goes_on(box)


NO_THREAD = "the code waits for a lock, event or queue that no other thread can release: there are no threads here"
NO_TASK = "the code waits for something that can never happen: no tool call, timer or task is left"
FULL = "[Errno 51] the run's files may hold 16777216 bytes in all (max_file_bytes)"
DIGITS = "Exceeds the limit (4300 digits) for integer string conversion"


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        case("an event that nobody sets", "import threading\nthreading.Event().wait()", "Deadlock", NO_THREAD),
        case("a queue that nobody fills", "import queue\nqueue.Queue().get()", "Deadlock", NO_THREAD),
        case(
            "a lock taken twice",
            "import threading\nx = threading.Lock()\nx.acquire()\nx.acquire()",
            "Deadlock",
            NO_THREAD,
        ),
        case(
            "a future that nobody sets",
            "import asyncio\nawait asyncio.get_running_loop().create_future()",
            "Deadlock",
            NO_TASK,
        ),
        case(
            "a hundred thousand futures that nobody sets",
            "import asyncio\nloop = asyncio.get_running_loop()\nawait asyncio.wait([loop.create_future() for _ "
            "in range(100_000)])",
            "Deadlock",
            NO_TASK,
        ),
        case("a number too long for a text", "str(10 ** 5000)", "ValueError", DIGITS),
        case("a number too long for a result", "10 ** 5000", "ValueError", DIGITS),
        case("a text too long for a number", "int('9' * 5000)", "ValueError", DIGITS),
        case(
            "a length that no index holds",
            "'x' * 2**31",
            "OverflowError",
            "cannot fit 'int' into an index-sized integer",
        ),
        case(
            "a width of too many digits", "f'{1:>{10**10}}'", "ValueError", "Too many decimal digits in format string"
        ),
        case(
            "a list changed while it is sorted",
            "class K:\n    def __lt__(s, o): y.append(1)\ny = [K(), K()]\ny.sort()",
            "ValueError",
            "list modified during sort",
        ),
        case(
            "more files than a folder holds",
            "for n in range(10**5): open(f'f{n}', 'w').close()",
            "OSError",
            "[Errno 51] a run may have 1000 files",
        ),
        case(
            "more folders than a folder holds",
            "import os\nfor n in range(10**5): os.mkdir(f'f{n}')",
            "OSError",
            "[Errno 51] a run may have 1000 folders",
        ),
        case("a file with a hole of terabytes", "f = open('x', 'wb')\nf.seek(10**12)\nf.write(b'x')", "OSError", FULL),
        case("a file stretched", "open('x', 'wb').truncate(10**10)", "OSError", FULL),
        case(
            "files that fill the folder together",
            "for n in range(20): open(f'{n}', 'wb').write(bytes(4 << 20))",
            "OSError",
            FULL,
        ),
        case("a name of a million letters", "open('a' * 10**6, 'w')", "OSError", "[Errno 37] Filename too long"),
        case(
            "a name that grows with its folder",
            "import os\nos.mkdir('a')\nopen('a/' + 'b' * 200, 'w')\nos.rename('a', 'c' * 100)",
            "OSError",
            "[Errno 37] Filename too long",
        ),
        case(
            "a name that no host can have",
            "open(b'a\\xff', 'w')",
            "OSError",
            "[Errno 25] Illegal byte sequence: 'a\\udcff'",
        ),
        case(
            "a document of entities of entities",
            "import xml.etree.ElementTree as E\nd = '<!ENTITY a \"' + 'x' * 1000 + '\">'\n"
            "for p, c in zip('abcdefg', 'bcdefgh'): d += f'<!ENTITY {c} \"' + f'&{p};' * 20 + '\">'\n"
            "E.fromstring(f'<!DOCTYPE r [{d}]><r>&h;</r>')",
            "ParseError",
            "limit on input amplification factor",
        ),
        case(
            "a result that nests",
            "x = []\nfor _ in range(500): x = [x]\nx",
            "NotEncodable",
            "result: nested too deeply to be encoded as JSON",
        ),
        case(
            "a result that holds itself",
            "x = []\nx.append(x)\nx",
            "NotEncodable",
            "result[0]: a list that contains itself",
        ),
        case(
            "an iterator without end, as the result",
            "import itertools\nitertools.count()",
            "NotEncodable",
            "a value of type itertools.count",
        ),
        case(
            "a field of a million letters",
            "import csv\nlist(csv.reader(['\"' + 'x' * 10**6]))",
            "Error",
            "field larger than field limit (131072)",
        ),
    ],
)
def test_what_ends_in_an_error(box: Sandbox, code: str, kind: str, message: str) -> None:
    run = box.run_sync(code, limits={"cpu_s": 15})
    assert run.error is not None, str(run.result)[:100]
    assert (run.status, run.error.kind, run.result) == ("error", kind, None), run.error
    assert (
        run.error.message.encode("utf-8", "backslashreplace").decode().startswith(message)
        or message in run.error.message
    )
    goes_on(box)


def _zip(size: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner", bytes(size))
    return made.getvalue()


@pytest.mark.parametrize(
    ("code", "make", "status"),
    [
        case(
            "zeros, compressed",
            "import zlib\nlen(zlib.decompress(open('bomb', 'rb').read()))",
            lambda: zlib.compress(bytes(100 << 20), 1),
            "memory_limit",
        ),
        case(
            "members, compressed one after the other",
            "import gzip\nlen(gzip.open('bomb').read())",
            lambda: gzip.compress(bytes(8 << 20), 1) * 20,
            "memory_limit",
        ),
        case(
            "an archive that is read",
            "import zipfile\nlen(zipfile.ZipFile('bomb').read('inner'))",
            lambda: _zip(100 << 20),
            "memory_limit",
        ),
        case(
            "an archive that is unpacked",
            "import zipfile\nzipfile.ZipFile('bomb').extractall()",
            lambda: _zip(40 << 20),
            "error",
        ),
    ],
)
def test_bombs(box: Sandbox, code: str, make: Callable[[], bytes], status: str) -> None:
    bomb = make()
    assert len(bomb) < 1 << 20
    run = box.run_sync(code, files={"bomb": bomb}, limits={**ROOMY, "max_file_bytes": 4 << 20})
    assert run.error is not None, run.result
    assert (run.status, run.result) == (status, None)
    full = "[Errno 51] the run's files may hold 4194304 bytes in all (max_file_bytes)"
    assert run.error.message == (full if status == "error" else "the run needed more memory than memory_mb=64")
    assert run.usage.memory_peak_bytes <= 64 << 20
    goes_on(box)


class TestOutput:
    CUT = "\n[output cut: more than 1000 bytes were printed]\n"

    @pytest.mark.parametrize(
        "code",
        [
            case("output without end", "while True: print('x' * 1000)"),
            case("errors without end", "import sys\nwhile True: sys.stderr.write('x' * 1000)"),
            case(
                "warnings without end",
                "import warnings\nwarnings.simplefilter('always')\nwhile True: warnings.warn('x' * 100)",
            ),
            case("bytes of output without end", "import sys\nwhile True: sys.stdout.buffer.write(b'\\xff' * 100)"),
        ],
    )
    def test_a_flood_is_cut_and_ended(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code, limits={"cpu_s": 0.08, "max_stdout_bytes": 1000})
        assert (run.status, run.stdout_truncated) == ("cpu_limit", True)
        assert run.stdout.endswith(self.CUT)
        assert len(run.stdout) <= 1000 + len(self.CUT)

    @attack("resources", "output in one piece")
    def test_one_large_piece_is_cut(self, box: Sandbox) -> None:
        run = box.run_sync("print('x' * 10**7)\n1", limits={**ROOMY, "max_stdout_bytes": 1000})
        assert (run.status, run.result, run.stdout) == ("completed", 1, "x" * 1000 + self.CUT)

    @attack("resources", "an exception's message of megabytes")
    def test_a_large_message_is_cut(self, box: Sandbox) -> None:
        run = box.run_sync("raise ValueError('x' * 10**7)", limits=ROOMY)
        assert run.error is not None
        assert (run.status, run.error.message) == ("error", "x" * 4000 + "… [9996000 more characters]")

    @attack("resources", "notes, causes and groups without end")
    @pytest.mark.parametrize(
        "code",
        [
            "e = ValueError('x')\nfor n in range(10**5): e.add_note('n' * 1000)\nraise e",
            "e = None\nfor n in range(10**5):\n    new = ValueError('x')\n    new.__cause__ = e\n    e = new\nraise e",
            "e = ValueError('x' * 1000)\nfor n in range(1000): e = ExceptionGroup('x', [e] * 9)\nraise e",
        ],
    )
    def test_what_hangs_on_an_exception_is_cut(self, box: Sandbox, code: str) -> None:
        run = box.run_sync(code)
        assert run.error is not None
        assert run.status == "error"
        assert run.error.message.startswith("x")
        assert len(run.model_dump_json()) < 30_000

    @attack("resources", "a result of megabytes")
    def test_a_large_result_is_not_sent(self, box: Sandbox) -> None:
        run = box.run_sync("'x' * 2_000_000")
        assert run.error is not None
        assert (run.status, run.result) == ("result_limit", None)
        assert run.error.message == "the result is 2000002 bytes of JSON; max_result_bytes=1048576"

    @attack("resources", "checkpoints without end")
    def test_checkpoints_are_counted(self, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.sandbox.host.broker.MAX_CHECKPOINTS", 100)
        run = box.run_sync("while True: checkpoint('a', 1)")
        assert run.error is not None
        assert (run.status, run.error.message) == ("call_limit", "the run made more than 100 checkpoints")


class TestPending:
    @attack("resources", "a hundred thousand awaits at once")
    def test_pending_awaits_are_only_memory_and_time(self) -> None:
        with Sandbox(limits=Limits(memory_mb=512)) as box:
            code = "import asyncio\nawait asyncio.gather(*(asyncio.sleep(1000) for _ in range(100_000)))"
            run = box.run_sync(code, limits={"timeout_s": 1.0})
            assert run.error is not None
            assert (run.status, run.error.message) == ("timeout", "the run took longer than timeout_s=1.0")
            assert box.run_sync("1").result == 1

    @attack("resources", "thousands of calls at once")
    def test_pending_calls_are_counted(self) -> None:
        begun: list[int] = []

        async def wait(n: int) -> None:
            begun.append(n)
            await asyncio.sleep(60)

        with Sandbox([wait], Limits(memory_mb=256, timeout_s=20)) as box:
            run = box.run_sync(
                "import asyncio\nawait asyncio.gather(*(tools.wait(n) for n in range(10_000)))",
                limits={"max_tool_calls": 50},
            )
        assert run.error is not None
        assert (run.status, run.error.message) == ("call_limit", "the run made more tool calls than max_tool_calls=50")
        assert (run.usage.tool_calls, len(begun) <= 50) == (50, True)
