"""Does anything survive from run to run, or repeat? A run leaves something wherever it can; the next one looks for it.

The two are run many times over, so that the second gets the worker, and the place in memory, that the first one had.
"""

from __future__ import annotations

import asyncio
import os
import uuid

import pytest

from go_ent.sandbox import Run, Sandbox, SandboxClosed
from tests.security.breaking import BREAK_OUT, PEEK
from tests.security.corpus import attack


def case(mechanism: str, leave: str, look: str, clean: object) -> object:
    return pytest.param(leave, look, clean, marks=attack("state", mechanism), id=mechanism)


@pytest.mark.parametrize(
    ("leave", "look", "clean"),
    [
        case("a global name", "left = 1", "'left' in dir()", False),
        case(
            "a name among the builtins",
            BREAK_OUT + "real.left = 1\nreal.sorted = list",
            "try:\n    left\n    found = True\nexcept NameError: found = False\n[found, sorted('ba')]",
            [False, ["a", "b"]],
        ),
        case("an attribute of a module", "import json\njson.left = 1", "import json\nhasattr(json, 'left')", False),
        case(
            "a function of the library, replaced",
            "import json\njson.dumps = len",
            "import json\njson.dumps([1])",
            "[1]",
        ),
        case(
            "the table of modules",
            BREAK_OUT + "modules['json'] = modules['math']\ndel modules['re']",
            "import json, re\n[json.dumps([1]), bool(re.match('a', 'a'))]",
            ["[1]", True],
        ),
        case(
            "an attribute of a type",
            "import decimal, fractions\nfractions.Fraction.left = 1",
            "import fractions\nhasattr(fractions.Fraction, 'left')",
            False,
        ),
        case(
            "a class registered as another",
            "import collections.abc\ncollections.abc.Sized.register(int)\n1",
            "import collections.abc\nisinstance(1, collections.abc.Sized)",
            False,
        ),
        case(
            "the cache of a function",
            "import fnmatch\nfor n in range(50): fnmatch.fnmatch('a', f'{n}*')",
            "import fnmatch\nfnmatch._compile_pattern.cache_info().currsize < 20",
            True,
        ),
        case(
            "the cache of patterns",
            "import re\nfor n in range(600): re.compile(f'left{n}')",
            "import re\nany('left' in str(key) for key in re._cache)",
            False,
        ),
        case(
            "the state of random numbers",
            "import random\nrandom.seed(1)",
            "import random\nrandom.random() == random.Random(1).random()",
            False,
        ),
        case(
            "the context of decimals",
            "import decimal\ndecimal.getcontext().prec = 3",
            "import decimal\ndecimal.getcontext().prec",
            28,
        ),
        case(
            "the locale",
            "import locale\nlocale.setlocale(locale.LC_ALL, 'C')\nlocale.left = "
            "1\nlocale._override_localeconv['left'] = 1",
            "import locale\n[hasattr(locale, 'left'), len(locale._override_localeconv)]",
            [False, 0],
        ),
        case("the environment", "import os\nos.environ['LEFT'] = '1'", "import os\n'LEFT' in os.environ", False),
        case(
            "the filters of warnings",
            "import warnings\nwarnings.simplefilter('error')",
            "import warnings\nwarnings.warn('x')\n1",
            1,
        ),
        case(
            "the handlers of logging",
            "import logging\nlogging.basicConfig(level=1)\nlogging.getLogger('left').setLevel(1)",
            "import logging\n[len(logging.getLogger().handlers), 'left' in logging.Logger.manager.loggerDict]",
            [0, False],
        ),
        case("a file", "open('left', 'w').write('x')", "import os\nos.listdir('.')", []),
        case(
            "an open file",
            "left = open('left', 'w')\nleft.write('x')\nimport os\nos.mkdir('d')\nos.chdir('d')",
            "import os\n[os.getcwd(), os.listdir('.')]",
            ["/home/guest", []],
        ),
        case(
            "a task left under way",
            "import asyncio\nasync def f():\n    await asyncio.sleep(0.001)\n    print('left')\n"
            "asyncio.ensure_future(f())\nawait asyncio.sleep(0)",
            "import asyncio\nawait asyncio.sleep(0.01)\nlen(asyncio.all_tasks())",
            1,
        ),
        case(
            "a context variable",
            "import contextvars\nv = contextvars.ContextVar('left')\nv.set(1)\n1",
            "import contextvars\n'left' in str(list(contextvars.copy_context()))",
            False,
        ),
        case(
            "a callback for the exit",
            "import atexit\natexit.register(print, 'left')\natexit.unregister(len)\nwhile True: pass",
            "import atexit\natexit._ncallbacks()",
            0,
        ),
        case(
            "a codec",
            "import codecs\ncodecs.register(lambda n: codecs.lookup('utf-8') if n == 'left' else "
            "None)\n'x'.encode('left')",
            "import codecs\ntry:\n    codecs.lookup('left')\n    found = "
            "True\nexcept LookupError: found = False\nfound",
            False,
        ),
        case(
            "a handler of encoding errors",
            "import codecs\ncodecs.register_error('strict', codecs.ignore_errors)",
            "try:\n    b'\\xff'.decode()\n    found = True\nexcept UnicodeDecodeError: found = False\nfound",
            False,
        ),
        case(
            "a way to pickle",
            "import copyreg, decimal\ncopyreg.pickle(complex, lambda c: (print, ('left',)))",
            "import copyreg, pickle\npickle.loads(pickle.dumps(1j)) == 1j",
            True,
        ),
        case(
            "a dialect, and a limit of fields",
            "import csv\ncsv.register_dialect('left')\ncsv.field_size_limit(1)",
            "import csv\n['left' in csv.list_dialects(), csv.field_size_limit()]",
            [False, 131072],
        ),
        case(
            "a type of files",
            "import mimetypes\nmimetypes.add_type('left/left', '.left')",
            "import mimetypes\nmimetypes.guess_type('a.left')[0]",
            None,
        ),
        case(
            "lines of source",
            "import linecache\nlinecache.cache['left.py'] = (1, None, ['left'], 'left.py')",
            "import linecache\nlinecache.getline('left.py', 1)",
            "",
        ),
        case(
            "the interpreter's limits",
            "import sys\nsys.setrecursionlimit(60)\nsys.set_int_max_str_digits(0)",
            "import sys\n[sys.getrecursionlimit() > 500, sys.get_int_max_str_digits()]",
            [True, 4300],
        ),
        case(
            "the streams",
            "import sys, io\nsys.stdout = sys.stderr = io.StringIO()\nsys.argv.append('left')\nprint('left')",
            "import sys\nprint('seen')\nsys.argv",
            ["code.py"],
        ),
        case(
            "half a line of output",
            "print('left', end='')\nimport sys\nsys.stdout.buffer.write(b'\\xe2\\x82')\nwhile True: pass",
            "print('seen')\n1",
            1,
        ),
        case(
            "a trace hook",
            "import threading\nthreading.settrace_all_threads(lambda *a: print('left'))",
            "def f(): pass\nf()\nimport sys\nsys.gettrace()",
            None,
        ),
        case(
            "the collector, switched off",
            BREAK_OUT + "modules['gc'].disable()\nmodules['gc'].callbacks.append(print)",
            "import operator, asyncio\ng = "
            "operator.attrgetter('base_events.sys.modules')(asyncio)['gc']\n[g.isenabled(), g.callbacks]",
            [True, []],
        ),
        case(
            "the event loop's policy",
            BREAK_OUT
            + "modules['asyncio.events']._event_loop_policy = None\nmodules['guest.loop'].GuestLoop.time = None",
            "import asyncio\nawait asyncio.sleep(0.001)\nasyncio.get_running_loop().time() > 0",
            True,
        ),
        case(
            "the policy, switched off",
            BREAK_OUT
            + "modules['guest.policy'].check = lambda tree: None\nmodules['guest.surface'].REFUSED_MODULES.clear()",
            "import operator, asyncio\nfound = "
            "operator.attrgetter('base_events.sys.modules')(asyncio)['guest.surface']\n"
            "'socket' in found.REFUSED_MODULES",
            True,
        ),
        case(
            "the run's own machinery",
            BREAK_OUT + "runner.prepare = runner._execute = None\nmodules['guest.bridge'].Tools = None",
            "await tools.add(1, 2)",
            3,
        ),
        case(
            "bytes written over the image",
            BREAK_OUT
            + PEEK
            + "at = memory.find(b'is not available in the sandbox', 0, 30 << 20)\nmemory[at:at + 6] = b'is now'\n1",
            "try:\n    getattr(len, '__glo' + 'bals__')\nexcept BaseException as e: said = str(e)\nsaid",
            "attribute '__globals__' is not available in the sandbox",
        ),
    ],
)
def test_nothing_is_left(box: Sandbox, leave: str, look: str, clean: object) -> None:
    limits = {"cpu_s": 0.1} if "while True" in leave else {"cpu_s": 10}
    statuses = {box.run_sync(leave, limits=limits).status for _ in range(2)}
    assert statuses == {"cpu_limit"} if "while True" in leave else statuses == {"completed"}
    for _ in range(3):
        run = box.run_sync(look)
        assert (run.status, run.result) == ("completed", clean), run.error
        assert "left" not in run.stdout
        assert run.files == {}


@pytest.mark.parametrize(
    ("code", "times"),
    [
        pytest.param(
            "import random\n[random.random(), random.getrandbits(64)]",
            6,
            marks=attack("state", "random numbers that repeat"),
        ),
        pytest.param("import os\nos.urandom(16).hex()", 6, marks=attack("state", "the system's randomness, repeated")),
        pytest.param("import secrets\nsecrets.token_hex()", 6, marks=attack("state", "tokens that repeat")),
        pytest.param("import uuid\nstr(uuid.uuid4())", 6, marks=attack("state", "unique names that are not")),
        pytest.param("import uuid\nuuid.getnode()", 6, marks=attack("state", "the machine's address, in unique names")),
        pytest.param(
            "import tempfile\ntempfile.mktemp()", 6, marks=attack("state", "names of temporary files that repeat")
        ),
        pytest.param("import time\ntime.time_ns()", 6, marks=attack("state", "the time of day, repeated")),
    ],
)
def test_nothing_repeats(box: Sandbox, code: str, times: int) -> None:
    """Also not in guests that are made ahead of their runs, from one snapshot, by one process."""

    async def main() -> list[Run]:
        return await asyncio.gather(*(box.run(code) for _ in range(times)))

    runs = [*asyncio.run(main()), *(box.run_sync(code) for _ in range(times))]
    assert {run.status for run in runs} == {"completed"}
    assert len({str(run.result) for run in runs}) == 2 * times
    assert uuid.getnode() not in [run.result for run in runs]


@attack("state", "the monotonic clock, as the machine's age")
def test_the_monotonic_clock_begins_with_the_run(box: Sandbox) -> None:
    runs = [box.run_sync("import time\n[time.monotonic(), time.perf_counter()]") for _ in range(3)]
    for run in runs:
        assert isinstance(run.result, list)
        assert all(isinstance(value, float) and 0 <= value < 10 for value in run.result)


@attack("state", "hashes, as a name of the host's process")
def test_hashes_are_the_images_and_nobody_elses(box: Sandbox) -> None:
    code = "hash('who runs this?')"
    with Sandbox() as other:
        assert len({one.run_sync(code).result for one in (box, other) for _ in range(3)}) == 1
    assert box.run_sync(code).result != hash("who runs this?")


@attack("state", "what an earlier run had in memory")
def test_no_guest_finds_anothers_memory(box: Sandbox) -> None:
    """The second run is told half of the first one's secret, finds that half, and never the rest."""
    half, rest = uuid.uuid4().hex, uuid.uuid4().hex
    look = (
        "start, found, at = bytes.fromhex(half), [], 0\n"
        "while (at := memory.find(start, at + 1, size)) > 0: found.append(bytes(memory[at:at + "
        "64]).decode('latin-1'))\nfound"
    )
    inputs = {"half": half.encode().hex(), "size": box.image.memory_bytes - (1 << 16)}
    for _ in range(2):
        assert (
            box.run_sync("left = [half + rest + str(n) for n in range(20_000)]\n1", {"half": half, "rest": rest}).result
            == 1
        )
        run = box.run_sync(BREAK_OUT + PEEK + look, inputs)
        assert run.status == "completed", run.error
        assert half in str(run.result)
        assert rest not in str(run.result)


@attack("state", "what an earlier run used up")
def test_each_run_has_its_own_limits(box: Sandbox) -> None:
    for _ in range(2):
        assert box.run_sync("x = bytes(60 << 20)", limits={"memory_mb": 128}).status == "completed"
        assert box.run_sync("while True: pass", limits={"cpu_s": 0.1}).status == "cpu_limit"
        assert (
            box.run_sync("for _ in range(5): await tools.add(1, 2)", limits={"max_tool_calls": 5}).status == "completed"
        )
        run = box.run_sync("await tools.add(1, 2)", limits={"memory_mb": 64, "cpu_s": 1, "max_tool_calls": 1})
        assert (run.status, run.result, run.usage.tool_calls) == ("completed", 3, 1)
        assert run.usage.memory_peak_bytes < 50 << 20


class TestCode:
    """The compiled form of a source is kept between runs: the one thing that is, and it answers for that source
    alone.
    """

    @attack("state", "one source with other inputs")
    def test_inputs_are_no_part_of_the_code(self, box: Sandbox) -> None:
        source = f"[n, secret]  # {uuid.uuid4()}"
        runs = [box.run_sync(source, {"n": n, "secret": f"of {n}"}) for n in range(4)]
        assert [run.result for run in runs] == [[n, f"of {n}"] for n in range(4)]
        assert "of 3" not in str(box.run_sync(source, {"n": 0}).error)

    @attack("state", "sources that look alike")
    def test_every_character_counts(self, box: Sandbox) -> None:
        mark = uuid.uuid4()
        sources = {
            f"'é'  # {mark}": "é",
            f"'e\u0301'  # {mark}": "e\u0301",
            f"'e'  # {mark}": "e",
            f"'e' # {mark}": "e",
            f"'E'  # {mark}": "E",
        }
        for _ in range(3):
            assert [box.run_sync(source).result for source in sources] == list(sources.values())

    @attack("state", "a source that is refused, after one that is not")
    def test_a_verdict_is_of_one_source(self, box: Sandbox) -> None:
        mark = uuid.uuid4()
        for _ in range(3):
            assert box.run_sync(f"import json  # {mark}\n1").status == "completed"
            assert box.run_sync(f"import socket  # {mark}\n1").status == "refused"

    @attack("state", "a constant of the kept code, written over")
    def test_a_run_can_not_change_the_kept_code(self, box: Sandbox) -> None:
        """It writes over a text in its own memory: a constant of the very code that was kept."""
        mark = uuid.uuid4().hex
        change = (
            "import sys\nif poison:\n    at = id(given) + sys.getsizeof(given) - len(given) - 2\n"
            "    assert bytes(memory[at:at + 32]) == given.encode()\n    memory[at + 4:at + 12] = b'POISONED'\n"
        )
        source = f"{BREAK_OUT}{PEEK}given = '{mark}'\n{change}given"
        for _ in range(2):
            poisoned = box.run_sync(source, {"poison": True})
            assert (poisoned.status, poisoned.result) == ("completed", f"{mark[:4]}POISONED{mark[12:]}"), poisoned.error
            assert box.run_sync(source, {"poison": False}).result == mark

    @attack("state", "kept code that a later run of a session hands in")
    def test_a_session_keeps_no_code_for_others(self, box: Sandbox) -> None:
        source = f"len(secret)  # {uuid.uuid4()}"
        with box.session() as session:
            session.run_sync(
                BREAK_OUT
                + "runner._keep = lambda code: [door.keep('AAAA') for _ in range(9)]\nrunner.prepare(\"1\") and 1"
            )
            session.run_sync(source, {"secret": "mine"})
        assert box.run_sync(source, {"secret": "theirs"}).result == 6

    @attack("state", "kept code that is rubbish")
    def test_only_what_was_compiled_first_is_kept(self, box: Sandbox) -> None:
        mark = uuid.uuid4().hex
        source = f"{BREAK_OUT}for text in ('AAAA', '!', '', 'A' * 10**6): door.keep(text)\n'{mark}'"
        assert [box.run_sync(source).result for _ in range(3)] == [mark] * 3

    @attack("state", "one source as a program and as a function")
    def test_how_a_source_is_entered_is_no_part_of_its_code(self, box: Sandbox) -> None:
        source = f"def f(n: int = 1) -> int:\n    return n + 1\nf(10)  # {uuid.uuid4()}"
        for _ in range(2):
            assert box.run_sync(source).result == 11
            assert box.run_sync(source, {"n": 5}, entry="f").result == 6


class TestSessions:
    """A session is what keeps state, for one caller. Nobody else's."""

    @attack("state", "another caller's session")
    def test_sessions_do_not_meet(self, box: Sandbox) -> None:
        with box.session() as one, box.session() as two:
            one.run_sync("x = 'one'\nimport json\njson.left = 1\nopen('left', 'w').write('x')")
            look = "import json, os\n['x' in dir(), hasattr(json, 'left'), os.listdir('.')]"
            assert two.run_sync(look).result == [False, False, []]
            assert box.run_sync(look).result == [False, False, []]
            assert one.run_sync(look).result == [True, True, ["left"]]

    @attack("state", "a session that is over")
    @pytest.mark.parametrize("end", ["close", "limit"])
    def test_a_guest_is_never_used_again(self, box: Sandbox, end: str) -> None:
        for n in range(3):
            session = box.session()
            session.run_sync(f"import json\njson.left = {n}")
            if end == "close":
                session.close()
            else:
                assert session.run_sync("while True: pass", limits={"cpu_s": 0.05}).status == "cpu_limit"
            with pytest.raises(SandboxClosed):
                session.run_sync("1")
            assert box.run_sync("import json\nhasattr(json, 'left')").result is False

    @attack("state", "a tool kept from a run that had it")
    def test_a_kept_tool_is_granted_anew(self, box: Sandbox) -> None:
        from go_ent.sandbox.host.tools import Toolset

        with box.session() as session:
            assert session.run_sync("kept = tools.add\nawait kept(1, 2)").result == 3
            run = session.run_sync("await kept(1, 2)", tools=Toolset())
        assert run.error is not None
        assert (run.status, run.error.message) == ("error", "add: there is no such tool")
        assert [(call.name, call.ok) for call in run.calls] == [("add", False)]

    @attack("state", "inputs and output of a session's earlier run")
    def test_what_was_said_is_of_one_run(self, box: Sandbox) -> None:
        with box.session() as session:
            first = session.run_sync("print('first', end='')\n'result'", {"n": 1}, files={"a": b"1"})
            second = session.run_sync("None")
        assert (first.stdout, first.result) == ("first", "result")
        assert (second.stdout, second.result, second.calls) == ("", None, [])

    @attack("state", "files of one run, in another's hands")
    def test_files_are_of_one_run(self, box: Sandbox) -> None:
        async def main() -> list[Run]:
            code = (
                "import time, os\nopen('mine', 'w').write(name)\ntime.sleep(0.02)\n[sorted(os.listdir('.')), "
                "open('given').read()]"
            )
            return await asyncio.gather(
                *(box.run(code, {"name": f"{n}"}, files={"given": f"{n}".encode()}) for n in range(8))
            )

        for n, run in enumerate(asyncio.run(main())):
            assert run.result == [["given", "mine"], f"{n}"]
            assert run.files == {"given": f"{n}".encode(), "mine": f"{n}".encode()}

    @attack("state", "the host's environment, in a later worker")
    def test_a_changed_environment_reaches_no_guest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT_LEFT", "left-in-the-environment")
        with Sandbox() as box:
            run = box.run_sync("import os\nsorted(os.environ)")
        assert run.result == []
        assert os.environ["GO_ENT_LEFT"] not in run.model_dump_json()
