"""A guest that has got past the policy and writes wherever it can leaves nothing for the next run of its worker.

After each run all of memory and all globals are compared with the snapshot: one byte that differs ends the run as
`crashed`. Then the next run of the same worker looks at what the attack has changed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from go_ent.sandbox import Limits, Sandbox
from tests.conftest import TOOLS
from tests.sandbox.test_reset import Comparing, completed, worker_of
from tests.security.breaking import BREAK_OUT, PEEK
from tests.security.corpus import attack

# What the attacks use: any byte of memory, by its address, and attributes that the policy hides.
HANDS = (
    BREAK_OUT
    + PEEK
    + """
get, put = real.getattr, real.setattr
def write(at, data):
    for n, byte in enumerate(data):
        memory[at - 1 + n] = byte
def word(at):
    return memory[at - 1] | memory[at] << 8 | memory[at + 1] << 16 | memory[at + 2] << 24
def write_word(at, value):
    write(at, struct.pack("<I", value))
def slot(kind, number):
    return id(kind) + 4 * number
def text_at(text):
    wanted = text[:2].encode().ljust(2, bytes(1))
    return next(at for at in range(id(text) + 16, id(text) + 64) if memory[at - 1:at + 1] == wanted)
PAGE = 4096
"""
)
# What the next run looks at: the same in every guest.
PROBE = (
    BREAK_OUT
    + """
get = real.getattr
import json, collections, decimal, re, string, warnings
gc, sys = modules["gc"], interpreter
class Fresh: pass
def depth(n):
    try: return depth(n + 1)
    except RecursionError: return n
str([
    [n + 1 for n in range(-5, 260, 40)], 200 + 1, 7 * 8, True + True, -3, "name" + "x", "a" < "b", "completed".upper(),
    len([]), (), b"", len(()), str(None), int("12"), "abc".split("b"), {1: 2}, hash("text"), [1, 2] + [3],
    isinstance(3, modules["collections.abc"].Sized), get(int, "evil", 0), get(json, "evil", 0), "json" in modules,
    "evil" in modules, len(modules), get(real, "len")("abc"), get(real, "evil", 0), len(get(sys, "meta_path")),
    get(sys, "path")[:2], get(sys, "gettrace")(), get(sys, "getprofile")(), get(sys, "getrecursionlimit")(),
    depth(0), get(sys, "get_int_max_str_digits")(), len(gc.callbacks), gc.isenabled(), gc.get_threshold(),
    len(gc.get_objects()), gc.get_freeze_count(), len(get(warnings, "filters")), decimal.getcontext().prec,
    string.ascii_letters[:3], sorted(get(modules["os"], "environ")), re.sub("a", "b", "aaa"),
    json.dumps({"a": [1, None]}), collections.Counter("aab"), f"{3.14159:.2f}", id(Fresh()), id([]),
    len(get(object, "__subclasses__")()), get(get(runner, "run"), "__name__"), str(1 << 70), 10 ** 20 // 7,
    await tools.add(1, 2), get(sys, "intern")("evil") is get(sys, "intern")("ev" + "il"),
])
"""
)


def case(mechanism: str, code: str) -> object:
    return pytest.param(code, marks=attack("reset", mechanism), id=mechanism)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Comparing(TOOLS, Limits(timeout_s=30, cpu_s=20), workers=1) as box:
        for _ in range(3):  # by then the probe comes compiled
            completed(box.run_sync(PROBE))
        yield box


@pytest.fixture(scope="module")
def fresh(box: Sandbox) -> str:
    """What the probe says in a guest of a new process."""
    with Sandbox(TOOLS, Limits(timeout_s=30, cpu_s=20), workers=1) as another:
        for _ in range(3):
            text = completed(another.run_sync(PROBE))
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    "code",
    [
        case(
            "seven hundred pages, with what is in them",
            "for page in range(1, 700):\n    memory[page * PAGE] = memory[page * PAGE]",
        ),
        case(
            "the heap that is free",
            "block = bytearray(7 << 20)\nfor at in range(0, len(block), PAGE):\n    block[at] = 0xEE",
        ),
        case(
            "every other page, in more regions than can be listed",
            "for page in range(2, HIGH // PAGE, 2):\n    memory[page * PAGE] = memory[page * PAGE]",
        ),
        case(
            "every page of its memory",
            "for page in range(1, HIGH // PAGE):\n    memory[page * PAGE] = memory[page * PAGE]",
        ),
        case("the free part of its stack", "for at in range(70000, 400000, 512):\n    memory[at] = 0xEE"),
        case("the bytes at address zero", "for at in range(0, 60):\n    memory[at] = 0xEE"),
        case("the last bytes of its memory", "for at in range(HIGH - 4096, HIGH - 8):\n    memory[at] = 0xEE"),
        case(
            "one byte of a page that nothing uses",
            "pages = (n * PAGE for n in range(8000, HIGH // PAGE))\n"
            "memory[next(page for page in pages if not any(memory[page:page + 4000]))] = 0xEE",
        ),
        case(
            "a page, written and put back",
            "before = memory[300 * PAGE]\nmemory[300 * PAGE] = before ^ 255\nmemory[300 * PAGE] = before",
        ),
        case("a small integer", "write_word(slot(200, 3), 199)"),
        case("a negative small integer", "write_word(slot(-3, 3), 4)"),
        case("the value of True", "write_word(slot(True, 3), 5)"),
        case("the count of None", "write_word(id(None), 1 << 30)"),
        case("the count of the empty tuple", "write_word(id(()), 77777)"),
        case("the hash of the empty bytes", "write_word(slot(b'', 3), 12345)"),
        case("a letter", "write(text_at('~'), b'!')"),
        case("an interned text", "write(text_at(get(modules['string'], 'ascii_letters')), b'XYZ')"),
        case("the hash of a text", "write_word(slot('name', 3), 4711)"),
        case(
            "a new interned text",
            "get(interpreter, 'intern')('evil' * 9)\n"
            "list(map(get(interpreter, 'intern'), [f'evil{n}' for n in range(3000)]))",
        ),
        case("a slot of a type", "write_word(slot(frozenset, 11), word(slot(list, 11)))"),
        case("the arithmetic of a type", "numbers = word(slot(float, 12))\nwrite_word(numbers, word(numbers + 4))"),
        case(
            "an attribute of a type that can't be changed",
            "write_word(slot(int, 21), word(slot(int, 21)) & ~(1 << 8))\nput(int, 'evil', 1)",
        ),
        case(
            "a method of a type that can't be changed",
            "write_word(slot(dict, 21), word(slot(dict, 21)) & ~(1 << 8))\nput(dict, 'evil', lambda self: 1)",
        ),
        case("the name of a type", "write_word(slot(complex, 3), word(slot(bytes, 3)))"),
        case("the cache of methods", "list(get(type('T', (), {'evil': n}), 'evil') for n in range(500))"),
        case(
            "its own code, before where it is now",
            "code = get(get(runner, 'run'), '__code__')\n"
            "write(id(code) + get(type(code), '__basicsize__'), b'\\t' * 4)",
        ),
        case(
            "the code of a library's function",
            "code = get(get(modules['json'], 'dumps'), '__code__')\n"
            "write(id(code) + get(type(code), '__basicsize__'), b'\\t' * 60)",
        ),
        case(
            "the function behind a name",
            "function = get(modules['json'], 'dumps')\n"
            "put(function, '__code__', get((lambda *a, **k: 'evil'), '__code__'))",
        ),
        case(
            "the defaults of a function",
            "put(get(modules['json'], 'loads'), '__defaults__', ('evil',))\n"
            "put(get(modules['json'], 'loads'), '__kwdefaults__', {})",
        ),
        case(
            "the names of a module",
            "get(modules['string'], '__dict__')['ascii_letters'] = 'evil'\nput(modules['json'], 'evil', 1)",
        ),
        case("the modules", "del modules['json']\nmodules['evil'] = runner"),
        case("the built-in names", "put(real, 'len', lambda x: 7)\nput(real, 'evil', 1)"),
        case(
            "the import system",
            "get(interpreter, 'meta_path').append(None)\n"
            "get(interpreter, 'path').insert(0, '/evil')\n"
            "get(interpreter, 'path_hooks').append(len)",
        ),
        case("a trace function", "get(interpreter, 'settrace')(lambda *a: None)"),
        case("a profile function", "get(interpreter, 'setprofile')(lambda *a: None)"),
        case(
            "monitoring",
            "monitoring = get(interpreter, 'monitoring')\n"
            "monitoring.use_tool_id(3, 'evil')\n"
            "monitoring.set_events(3, get(monitoring.events, 'PY_START'))",
        ),
        case(
            "hooks for exceptions",
            "put(interpreter, 'excepthook', len)\n"
            "put(interpreter, 'unraisablehook', len)\n"
            "put(interpreter, 'displayhook', len)",
        ),
        case("audit hooks", "get(interpreter, 'addaudithook')(lambda *a: None)"),
        case("functions to run at the end", "modules['atexit'].register(print, 'evil')"),
        case(
            "the collector's settings",
            "gc = modules['gc']\ngc.callbacks.append(len)\ngc.disable()\ngc.set_threshold(7)",
        ),
        case("frozen objects", "modules['gc'].unfreeze()"),
        case(
            "the recursion limit",
            "get(interpreter, 'setrecursionlimit')(77)\nget(interpreter, 'set_int_max_str_digits')(0)",
        ),
        case("warning filters", "get(modules['warnings'], 'simplefilter')('ignore')"),
        case("codecs", "modules['codecs'].register(lambda name: None)\nmodules['codecs'].register_error('evil', len)"),
        case("the context of decimals", "import decimal\ndecimal.getcontext().prec = 3"),
        case("an abstract class's register", "modules['collections.abc'].Sized.register(int)"),
        case(
            "caches of the library",
            "import re, functools\n"
            "[re.compile(f'x{n}') for n in range(600)]\n"
            "get(modules['typing'], '_cleanups').append(len)",
        ),
        case("context variables", "import contextvars\nkept = contextvars.ContextVar('evil', default=1)\nkept.set(2)"),
        case("the environment", "get(modules['os'], 'environ')['EVIL'] = '1'"),
        case("files of the run", "open('evil.txt', 'w').write('x' * 10000)"),
        case("the door to the host", "put(door, 'exchange', lambda message: '')\nput(door, 'write', len)"),
        case(
            "weak references with functions",
            "import weakref\n"
            "class K: pass\n"
            "kept = K()\n"
            "put(modules['json'], 'kept', [kept, weakref.ref(kept, print), weakref.finalize(kept, print)])",
        ),
        case(
            "a generator that is half way",
            "def g():\n"
            "    try:\n"
            "        yield 1\n"
            "    finally:\n"
            "        print('late')\n"
            "kept = g()\n"
            "next(kept)\n"
            "put(modules['json'], 'kept', kept)",
        ),
        case(
            "a task that never ends",
            "import asyncio\n"
            "async def forever():\n"
            "    await asyncio.sleep(9999)\n"
            "kept = asyncio.ensure_future(forever())\n"
            "put(modules['json'], 'kept', kept)\n"
            "await asyncio.sleep(0)",
        ),
        case(
            "an exception that is kept with its frames",
            "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    put(modules['json'], 'kept', error)",
        ),
        case("many objects", "put(modules['json'], 'kept', [object() for _ in range(100000)])"),
        case(
            "threads that were asked for",
            "try:\n"
            "    modules['_thread'].start_new_thread(print, ())\n"
            "except RuntimeError:\n"
            "    pass\n"
            "put(modules['threading'], '_counter', None)",
        ),
        case("the fault handler", "try:\n    modules['faulthandler'].enable()\nexcept real.Exception:\n    pass"),
        case("the random generator of the library", "import random\nrandom.seed(1)\nput(random, 'random', lambda: 4)"),
        case(
            "the C library's errno",
            "for _ in range(20):\n"
            "    try:\n"
            "        modules['posix'].open('/evil', 0)\n"
            "    except OSError:\n"
            "        pass",
        ),
    ],
)
def test_leaves_nothing(box: Sandbox, fresh: str, code: str) -> None:
    completed(box.run_sync("1"))
    before = worker_of(box)
    attacked = f"HIGH = {box.image.memory_bytes}\n{HANDS}{code}\nNone"
    run = box.run_sync(attacked)
    assert run.status == "completed", run.error
    assert worker_of(box) == before, "the guest was not reset"
    assert completed(box.run_sync(PROBE)) == fresh
    assert worker_of(box) == before
