"""Ways past the policy, which is a surface and not the wall: each gets at the whole interpreter, and gains nothing by
it.

Whatever the way, what is behind it is the same: an interpreter in WebAssembly to which nothing was granted.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from go_ent.sandbox import Sandbox
from tests.security.breaking import Host, a_host
from tests.security.corpus import attack

# What anybody would try who holds the table of modules. Each attempt says how it ended.
LOOT = """
def attempt(name, call):
    try:
        found[name] = repr(call())
    except BaseException as error:
        found[name] = f"{type(error).__name__} {getattr(error, 'errno', '')}".strip()

found = {}
posix, raw, net = modules["posix"], modules["_io"], modules["_socket"]
attempt("read", lambda: raw.FileIO(secret_file).read())
attempt("write", lambda: raw.FileIO(marker, "w").write(b"here"))
attempt("folder", lambda: posix.listdir("/"))
attempt("environment", lambda: posix.environ)
attempt("connection", lambda: net.socket().connect(("127.0.0.1", tcp_port)))
attempt("datagram", lambda: net.socket(net.AF_INET, net.SOCK_DGRAM).sendto(b"here", ("127.0.0.1", udp_port)))
attempt("name", lambda: net.getaddrinfo("localhost", tcp_port))
attempt("program", lambda: modules["subprocess"].run(["/bin/true"]))
attempt("fork", lambda: posix.fork())
found
"""
NOTHING = {
    "read": "FileNotFoundError 44",
    "write": "FileNotFoundError 44",
    "folder": "FileNotFoundError 44",
    "environment": "{}",
    "connection": "PermissionError 2",
    "datagram": "PermissionError 2",
    "name": "PermissionError 2",
    "program": "OSError 58",
    "fork": "AttributeError",
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with a_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def case(mechanism: str, code: str) -> object:
    return pytest.param(code, marks=attack("jail", mechanism), id=mechanism)


@pytest.mark.parametrize(
    "code",
    [
        case("attrgetter with dots", "import operator, logging\nmodules = operator.attrgetter('sys.modules')(logging)"),
        case(
            "methodcaller to every class, one of which imports",
            "import operator\nclasses = operator.methodcaller('__subclasses__')(object)\n"
            "modules = [c for c in classes if c.__name__ == 'BuiltinImporter'][0].load_module('sys').modules",
        ),
        case(
            "a Formatter's field",
            "import string, logging\nmodules = string.Formatter().get_field('0.sys.modules', (logging,), {})[0]",
        ),
        case("getattr of what a module imported", "import logging\nmodules = getattr(logging, 'sys').modules"),
        case(
            "object's own __getattribute__",
            "import json\nspace = object.__getattribute__(json.dumps, '__glo' + 'bals__')\n"
            "modules = space['__builtins__']['__import__']('sys').modules",
        ),
        case(
            "a descriptor taken from its type",
            "import json\nspace = type(lambda: 0).__dict__['__globals__'].__get__(json.dumps)\n"
            "modules = space['__builtins__']['__import__']('sys').modules",
        ),
        case(
            "positional patterns of a class that is everything",
            "import json\nclass Every(type):\n    def __instancecheck__(cls, value): return True\n"
            "class Seen(metaclass=Every):\n    __match_args__ = ('__globals__',)\n"
            "match json.dumps:\n    case Seen(space): modules = space['__builtins__']['__import__']('sys').modules",
        ),
        case(
            "a builtin's module, of a builtin renamed",
            "p = print\nmodules = p.__self__.eval(\"__import__('logging').sys.modules\")",
        ),
        case(
            "annotations in quotes",
            "import typing, json\ndef f(x: "
            "\"json.dumps.__globals__['__builtins__']['__import__']('sys').modules\"): pass\n"
            "modules = typing.get_type_hints(f)['x']",
        ),
        case(
            "code to be timed",
            "import timeit\nout = []\ntimeit.timeit('import sys; out.append(sys.modules)', number=1, "
            "globals={'out': out})\n"
            "modules = out[0]",
        ),
        case(
            "examples in a docstring",
            "import doctest\nout = []\nclass A:\n    '''\n    >>> import sys\n    >>> "
            "out.append(sys.modules)\n    '''\n"
            "doctest.run_docstring_examples(A, {'out': out})\nmodules = out[0]",
        ),
        case(
            "names in a logging configuration",
            "import logging.config\nmodules = logging.config.BaseConfigurator({}).resolve('sys.modules')",
        ),
        case(
            "expressions in a logging configuration file",
            "import logging.config, io\nout = logging.out = "
            "[]\nlogging.config.fileConfig(io.StringIO('''[loggers]\nkeys=root\n[handlers]\n"
            "keys=h\n[formatters]\nkeys=\n[logger_root]\nhandlers=h\n[handler_h]\nclass=StreamHandler\nargs=(out.append(sys.modules),)\n'''))\n"
            "modules = out[0]",
        ),
        case(
            "a name to be patched",
            "import unittest.mock\nmodules = unittest.mock.patch('sys.modules').getter().modules",
        ),
        case(
            "the unpickler that is written in Python",
            "import pickle, io\nmodules = pickle._Unpickler(io.BytesIO(b'csys\\nmodules\\n.')).load()",
        ),
        case(
            "frames from traceback's walk",
            "import traceback\nframe = [f for f, _ in traceback.walk_stack(None)][-1]\n"
            "modules = object.__getattribute__(frame, 'f_glob' + 'als')['sys'].modules",
        ),
        case(
            "frames from a task's stack",
            "import asyncio\nawait asyncio.sleep(0)\nframe = asyncio.current_task().get_stack()[0]\n"
            "modules = object.__getattribute__(frame, 'f_built' + "
            "'ins')['len'].__self__.eval(\"__import__('logging').sys.modules\")",
        ),
        case(
            "a trace hook, set by threading",
            "import threading\nframes = []\nthreading.settrace_all_threads(lambda frame, event, arg: "
            "frames.append(frame))\n"
            "def f(): pass\nf()\nthreading.settrace_all_threads(None)\n"
            "modules = object.__getattribute__(frames[0], 'f_built' + "
            "'ins')['len'].__self__.eval(\"__import__('logging').sys.modules\")",
        ),
    ],
)
def test_past_the_policy_there_is_nothing(box: Sandbox, host: Host, code: str) -> None:
    run = box.run_sync(f"{code}\n{LOOT}", host.inputs)
    assert run.status == "completed", run.error
    assert run.result == NOTHING
    assert (run.calls, run.files) == ([], {})
    host.untouched(run)


@attack("jail", "a template that is put together, for what it prints")
def test_a_dump_of_the_interpreter_says_nothing_of_the_host(box: Sandbox, host: Host) -> None:
    template = "'{0.__co' + 'de__.co_filename} {0.__glo' + 'bals__[__file__]} {1.__init__.__co' + 'de__.co_filename}'"
    run = box.run_sync(f"import json\n({template}).format(json.dumps, ToolError)", host.inputs)
    assert (run.status, run.result) == (
        "completed",
        "/python/json/__init__.py /python/json/__init__.py /0/guest/bridge.py",
    )
    host.untouched(run)


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        pytest.param(
            "import xml.sax, io, logging\nparser = "
            "xml.sax.make_parser()\nparser.setFeature(xml.sax.handler.feature_external_ges, True)\n"
            "parser.parse(io.StringIO(f'<!DOCTYPE r [<!ENTITY e SYSTEM \"file://{secret_file}\">]><r>&e;</r>'))",
            "URLError",
            "[Errno 44] No such file or directory",
            marks=attack("jail", "an external entity of an XML document"),
        ),
        pytest.param(
            "import tarfile, io\nb = io.BytesIO()\nt = tarfile.open(fileobj=b, mode='w')\ni = "
            "tarfile.TarInfo('../../evil')\ni.size = 1\n"
            "t.addfile(i, io.BytesIO(b'x'))\nt.close()\nb.seek(0)\ntarfile.open(fileobj=b).extractall('.', "
            "filter='fully_trusted')",
            "PermissionError",
            "[Errno 2] Permission denied: './..'",
            marks=attack("jail", "an archive's member that leads out"),
        ),
        pytest.param(
            "import pathlib\npathlib.Path('link').symlink_to(secret_file)",
            "FileNotFoundError",
            "[Errno 44] No such file or directory",
            marks=attack("jail", "a link to what is outside"),
        ),
        pytest.param(
            "import zoneinfo\nzoneinfo.ZoneInfo('../../../etc/passwd')",
            "ValueError",
            "ZoneInfo keys must refer to subdirectories of TZPATH, got: ../../../etc/passwd",
            marks=attack("jail", "a time zone that is a path"),
        ),
        pytest.param(
            "import collections\ncollections.namedtuple('A', ['x', \"y=__import__('os')\"])",
            "ValueError",
            "Type names and field names must be valid identifiers: \"y=__import__('os')\"",
            marks=attack("jail", "a named tuple's field that is code"),
        ),
        pytest.param(
            "import dataclasses\ndataclasses.make_dataclass('A', [(\"x=__import__('os')\", int)])",
            "TypeError",
            "Field names must be valid identifiers: \"x=__import__('os')\"",
            marks=attack("jail", "a dataclass's field that is code"),
        ),
        pytest.param(
            "import enum\nenum.Enum('A', 'mro x')",
            "ValueError",
            "invalid enum member name(s) 'mro'",
            marks=attack("jail", "an enumeration's member that is the type's own"),
        ),
        pytest.param(
            "import gettext\ngettext.c2py('n + __import__(\"os\")')",
            "ValueError",
            "invalid token in plural form: __import__",
            marks=attack("jail", "a plural form that is code"),
        ),
        pytest.param(
            "import ast\nast.literal_eval(\"__import__('os')\")",
            "ValueError",
            "malformed node or string on line 1",
            marks=attack("jail", "a literal that is code"),
        ),
        pytest.param(
            "import codecs\ncodecs.lookup('../../../etc/passwd')",
            "LookupError",
            "unknown encoding: ../../../etc/passwd",
            marks=attack("jail", "an encoding that is a path"),
        ),
        pytest.param(
            "import codecs\ncodecs.register(lambda name: (None, None, None, None))\n'x'.encode('mine')",
            "TypeError",
            "'NoneType' object is not callable",
            marks=attack("jail", "a codec of one's own"),
        ),
        pytest.param(
            "import asyncio\nawait asyncio.open_connection('127.0.0.1', tcp_port)",
            "PermissionError",
            "[Errno 2] Permission denied",
            marks=attack("jail", "a connection of the event loop's"),
        ),
        pytest.param(
            "import logging.handlers\nlogging.handlers.SysLogHandler(('127.0.0.1', udp_port))",
            "PermissionError",
            "[Errno 2] Permission denied",
            marks=attack("jail", "a log that is sent away"),
        ),
        pytest.param(
            "import asyncio\nawait asyncio.create_subprocess_shell('touch ' + marker)",
            "NotImplementedError",
            "",
            marks=attack("jail", "a program of the event loop's"),
        ),
        pytest.param(
            "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor().submit(print)",
            "NotImplementedError",
            "This Python build lacks multiprocessing.synchronize",
            marks=attack("jail", "a pool of processes"),
        ),
        pytest.param(
            "import shelve\nshelve.open(marker)",
            "PolicyRefusal",
            "only the run's own files can be opened",
            marks=attack("jail", "a database file"),
        ),
        pytest.param(
            "import tempfile, os\ntempfile.mkstemp(dir=os.path.dirname(marker))",
            "PermissionError",
            "[Errno 2] Permission denied",
            marks=attack("jail", "a temporary file elsewhere"),
        ),
        pytest.param(
            "import io\nio.FileIO(secret_file)",
            "FileNotFoundError",
            "[Errno 44] No such file or directory",
            marks=attack("jail", "the file class below open"),
        ),
    ],
)
def test_the_library_does_not_do_it_for_them(box: Sandbox, host: Host, code: str, kind: str, message: str) -> None:
    run = box.run_sync(code, host.inputs)
    assert run.error is not None, run.result
    assert (run.status, run.error.kind) == ("refused" if kind == "PolicyRefusal" else "error", kind), run.error
    assert message in run.error.message
    assert run.files == {}
    host.untouched(run)
