"""Code that reaches for the interpreter is refused: before anything of it runs, or at the moment it gets there."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from go_ent.sandbox import Sandbox
from tests.security.corpus import attack

NETWORK = "there is no network in the sandbox; call a tool instead"
INTERNALS = "it belongs to the interpreter's internals; use the object's ordinary methods"


class Refusal(NamedTuple):
    """What the policy says, in which line of the code, and what it advises."""

    message: str
    line: int = 1
    hint: str = ""


def attribute(name: str, line: int = 1, hint: str = INTERNALS) -> Refusal:
    return Refusal(f"attribute {name!r} is not available in the sandbox", line, hint)


def name(name: str, line: int = 1, hint: str = "") -> Refusal:
    return Refusal(f"{name!r} is not available in the sandbox", line, hint)


def module(name: str, line: int = 1, hint: str = "it reaches for the interpreter, not for the task") -> Refusal:
    return Refusal(f"module {name!r} is not available in the sandbox", line, hint)


def case(mechanism: str, code: str, refusal: Refusal) -> object:
    return pytest.param(code, refusal, marks=attack("jail", mechanism), id=mechanism)


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        case(
            "every class, from a literal's class up and down again",
            "[c for c in ().__class__.__bases__[0].__subclasses__() if c.__name__ == 'Popen']",
            attribute("__subclasses__"),
        ),
        case("type's own method, unbound", "type.__subclasses__(object)", attribute("__subclasses__")),
        case(
            "attributes walked by a template", "'{0.__init__.__globals__}'.format(ToolError)", attribute("__globals__")
        ),
        case("an f-string's expression", "f'{(lambda: 0).__globals__}'", attribute("__globals__")),
        case("an expression inside a format specification", "f'{1:{(lambda: 0).__code__}}'", attribute("__code__")),
        case("a template string's expression", "t'{(lambda: 0).__globals__}'", attribute("__globals__")),
        case("a generator's frame", "g = (x for x in 'a')\nframe = g.gi_frame", attribute("gi_frame", 2)),
        case("a coroutine's frame", "async def f(): pass\nframe = f().cr_frame", attribute("cr_frame", 2)),
        case(
            "an asynchronous generator's frame", "async def f(): yield\nframe = f().ag_frame", attribute("ag_frame", 2)
        ),
        case(
            "a caught exception's frames",
            "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    t = e.__traceback__\n    t.tb_frame",
            attribute("tb_frame", 5),
        ),
        case(
            "the calling frame",
            "import sys\nframe = sys._getframe(1)",
            Refusal("sys._getframe is not available in the sandbox", 2),
        ),
        case(
            "code put into a function",
            "def f(): pass\nf.__code__ = f.__code__.replace(co_consts=())",
            attribute("__code__", 2),
        ),
        case("what a closure holds", "def f(): pass\nf.__closure__[0].cell_contents", attribute("__closure__", 2)),
        case("the function behind annotations", "def f(x: 1): pass\nf.__annotate__(1)", attribute("__annotate__", 2)),
        case("code from bytes, by marshal", "import marshal\nmarshal.loads(b'')", module("marshal")),
        case("the import system, by importlib", "from importlib import import_module", module("importlib")),
        case(
            "native code, by ctypes",
            "import ctypes\nctypes.string_at(0)",
            module("ctypes", hint="it needs native code that the image does not have"),
        ),
        case(
            "every object there is, by gc",
            "import gc\ngc.get_objects()",
            Refusal("gc.get_objects is not available in the sandbox", 2),
        ),
        case(
            "the calling frame, by inspect",
            "import inspect\nframe = inspect.currentframe()",
            Refusal("inspect.currentframe is not available in the sandbox", 2),
        ),
        case(
            "handlers of signals",
            "import signal\nsignal.signal(2, print)",
            module("signal", hint="there are no other processes in the sandbox; call a tool instead"),
        ),
        case("the start-up machinery, by site", "import site", module("site")),
        case("a debugger", "import pdb\npdb.set_trace()", module("pdb")),
        case("the debugger's builtin", "breakpoint()", name("breakpoint", hint="use print: it is captured")),
        case(
            "the import function by its name",
            "__import__('os').system('id')",
            name("__import__", hint="use an import statement"),
        ),
        case(
            "the builtins by their name",
            "__builtins__['eval']('1')",
            name("__builtins__", hint="the builtins are there by their names"),
        ),
        case(
            "the loader of the main module",
            "__loader__.load_module('posix')",
            name("__loader__", hint="use an import statement"),
        ),
        case("an import behind another on its line", "import json; import socket", module("socket", hint=NETWORK)),
        case("an import behind a carriage return", "import json\rimport socket", module("socket", 2, NETWORK)),
        case(
            "an import from where a line goes on",
            "from json import loads; from \\\nsocket import x",
            module("socket", hint=NETWORK),
        ),
        case("one of several modules", "import json, socket as s, re", module("socket", hint=NETWORK)),
        case(
            "an import from the package around it",
            "from .import x",
            Refusal("relative imports are not available in the sandbox"),
        ),
        case("an attribute in letters that are read as others", "(lambda: 0).__ｇlobals__", attribute("__globals__")),
        case("an attribute behind a blank", "(lambda: 0) . __globals__", attribute("__globals__")),
        case("a template in two pieces", "'{0.__glo' 'bals__}' . format(print)", attribute("__globals__")),
        case("a builtin behind a number", "x = 1if compile else 2", name("compile")),
        case(
            "a module of a module's module",
            "import logging.handlers as h\nh . socket",
            module("socket", 2, NETWORK),
        ),
        case("the module that a builtin is of", "len.__self__.eval('1')", attribute("__self__")),
        case(
            "the table of modules",
            "import sys\nsys.modules['posix']",
            Refusal("sys.modules is not available in the sandbox", 2),
        ),
        case(
            "a module by way of another's imports",
            "import logging as l\nm = l\nm.os.system('id')",
            Refusal("os.system is not available in the sandbox", 3),
        ),
        case("a module's dictionary", "import logging\nlogging.__dict__['sys']", attribute("__dict__", 2)),
        case(
            "a module's dictionary by vars",
            "import logging\nvars(logging)",
            name("vars", 2, "use dataclasses.asdict, or name the attributes you need"),
        ),
        case(
            "a class pattern that reads attributes",
            "match len:\n    case object(__self__=x, __globals__=g): pass",
            attribute("__globals__", 2),
        ),
        case(
            "a hook for every line",
            "import sys\nsys.settrace(print)",
            Refusal("sys.settrace is not available in the sandbox", 2),
        ),
        case(
            "a hook for audits",
            "import sys\nsys.addaudithook(print)",
            Refusal("sys.addaudithook is not available in the sandbox", 2),
        ),
        case(
            "a hook for exceptions",
            "import sys\nsys.excepthook = print",
            Refusal("sys.excepthook is not available in the sandbox", 2),
        ),
        case(
            "frames by way of a library's inspect",
            "import dataclasses\ndataclasses.inspect.stack()",
            Refusal("inspect.stack is not available in the sandbox", 2),
        ),
        case(
            "a syntax tree, compiled",
            "import ast\ncompile(ast.parse('1'), '', 'eval')",
            name("compile", 2, "write the code itself; for patterns use re.compile"),
        ),
        case(
            "eval as the value of a parameter",
            "def f(run=eval): return run('1')",
            name("eval", 1, "write the expression itself; for data use json.loads or ast.literal_eval"),
        ),
        case(
            "exec as a decorator",
            "@exec\nclass A: pass",
            name("exec", 1, "write the code itself instead of running it from a string"),
        ),
        case(
            "a class body's own namespace",
            "class A:\n    locals()['x'] = 1",
            name("locals", 2, "keep your state in variables or a dict of your own"),
        ),
        case(
            "a class made by type with three arguments",
            "type('X', (int,), {'x': property(lambda s: type(s).__subclasses__())})().x",
            attribute("__subclasses__"),
        ),
        case(
            "a metaclass of one's own",
            "class M(type):\n    def mro(cls): return [cls, object]\n    def walk(cls): return cls.__subclasses__()",
            attribute("__subclasses__", 3),
        ),
        case(
            "a descriptor that is given the class",
            "class D:\n    def __get__(self, o, t): return t.__subclasses__",
            attribute("__subclasses__", 2),
        ),
        case(
            "the class cell of a method",
            "class A:\n    def f(self): return __class__.__subclasses__",
            attribute("__subclasses__", 2),
        ),
        case("a finalizer", "class A:\n    def __del__(self): self.f.__globals__", attribute("__globals__", 2)),
        case(
            "an annotation that is never evaluated", "def f(x: (lambda: 0).__globals__): pass", attribute("__globals__")
        ),
        case(
            "a type alias, evaluated later", "type X = (lambda: 0).__globals__\nX.__value__", attribute("__globals__")
        ),
        case(
            "a type parameter's bound, evaluated later",
            "def f[T: (lambda: 0).__globals__](): pass",
            attribute("__globals__"),
        ),
        case("letters that Python takes for others", "def f(): pass\nf.__𝓰lobals__", attribute("__globals__", 2)),
        case(
            "an import that may fail",
            "try:\n    import socket\nexcept ImportError: pass",
            module("socket", 2, "there is no network in the sandbox; call a tool instead"),
        ),
        case(
            "the package around the code",
            "from . import guest",
            Refusal(
                "relative imports are not available in the sandbox",
                1,
                "the code is one file: there is no package around it",
            ),
        ),
        case("the sandbox's own modules", "import guest.runner", module("guest.runner")),
        case(
            "an assignment that makes a module's name look like one's own",
            "import logging\nlogging.x = 1\nlogging.sys.modules",
            Refusal("sys.modules is not available in the sandbox", 3),
        ),
    ],
)
def test_refused_before_anything_runs(box: Sandbox, code: str, refusal: Refusal) -> None:
    run = box.run_sync(f"print('began')\n{code}")
    assert run.status == "refused", (run.result, run.error)
    assert run.error is not None
    assert (run.error.kind, run.error.message, run.error.line) == ("PolicyRefusal", refusal.message, refusal.line + 1)
    assert run.error.source_line == code.splitlines()[refusal.line - 1]
    assert run.error.hint
    assert refusal.hint in run.error.hint
    assert (run.stdout, run.result, run.calls, run.files) == ("", None, [], {})


def outside(path: str, line: int) -> Refusal:
    hint = f"use a relative name; code sees only the files that it is given: pass {path} in files="
    return Refusal(f"open of '{path}' is refused: only the run's own files can be opened", line, hint)


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        case(
            "an attribute's name that is put together",
            "getattr(lambda: 0, '__glo' + 'bals__')",
            attribute("__globals__", 1, "it belongs to the interpreter's internals"),
        ),
        case(
            "getattr handed to a function that calls it",
            "import functools\nfunctools.reduce(getattr, ['__class__', '__base__', '__subclasses__'], ())",
            attribute("__subclasses__", 2, "it belongs to the interpreter's internals"),
        ),
        case(
            "a text whose methods lie about it",
            "class S(str):\n    def __eq__(self, o): return False\n    def __hash__(self): return "
            "1\ngetattr(lambda: 0, S('__globals__'))",
            attribute("__globals__", 4, "it belongs to the interpreter's internals"),
        ),
        case(
            "an attribute put where it is not looked for",
            "class A: pass\nsetattr(A, '__sub' + 'classes__', 1)",
            attribute("__subclasses__", 2, "it belongs to the interpreter's internals"),
        ),
        case(
            "a part of os by a name that is put together",
            "import os\ngetattr(os, 'sys' + 'tem')('id')",
            Refusal("os.system is not available in the sandbox", 2),
        ),
        case(
            "a pickle that calls the system",
            "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'id'\\ntR.\")",
            Refusal(
                "os.system is not available to pickle in the sandbox", 2, "pickle only data and classes of your own"
            ),
        ),
        case(
            "a pickle that imports what is refused",
            "import pickle\npickle.loads(b\"cposix\\nsystem\\n(S'id'\\ntR.\")",
            module("posix", 2),
        ),
        case(
            "a pickle that gets attributes",
            "import pickle, io\npickle.Unpickler(io.BytesIO(b'cbuiltins\\ngetattr\\n.')).load()",
            name("getattr", 2, "pickle only data and classes of your own"),
        ),
        case(
            "a pickle with a name of many parts",
            "import pickle\npickle.loads(b'\\x80\\x04\\x8c\\x04json\\x8c\\x11dumps.__globals__\\x93.')",
            Refusal(
                "json.dumps.__globals__ is not available to pickle in the sandbox",
                2,
                "pickle only data and classes of your own",
            ),
        ),
        case(
            "an import for the type checker that is made all the same",
            "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    import socket",
            module("socket", 3, "there is no network in the sandbox; call a tool instead"),
        ),
        case(
            "a name of one's own elsewhere",
            "def f(): globals = 1\nglobals()",
            name("globals", 2, "keep your state in variables or a dict of your own"),
        ),
        case(
            "a path that is put together",
            "open('/etc' + '/passwd')",
            outside("/etc/passwd", 1),
        ),
        case(
            "a way up out of the folder",
            "import pathlib\n(pathlib.Path('a') / '..' / '..' / 'etc' / 'passwd').read_text()",
            outside("a/../../etc/passwd", 2),
        ),
        case(
            "a descriptor by its number",
            "open(3, 'rb')",
            Refusal(
                "open of a file descriptor is refused: only the run's own files can be opened", 1, "use a relative name"
            ),
        ),
        case(
            "a document that includes another",
            "import xml.etree.ElementTree as E, xml.etree.ElementInclude as I\n"
            'I.include(E.fromstring(\'<r xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include '
            'href="/etc/passwd" parse="text"/></r>\'))',
            outside("/etc/passwd", 2),
        ),
        case(
            "a command line that names a file to read",
            "import argparse\nargparse.ArgumentParser(fromfile_prefix_chars='@').parse_args(['@/etc/passwd'])",
            outside("/etc/passwd", 2),
        ),
        case(
            "a log that is a file",
            "import logging\nlogging.FileHandler('/etc/x')",
            outside("/etc/x", 2),
        ),
    ],
)
def test_refused_when_it_gets_there(box: Sandbox, code: str, refusal: Refusal) -> None:
    run = box.run_sync(f"print('began')\n{code}\nprint('got there')")
    assert run.status == "refused", (run.result, run.error)
    assert run.error is not None
    assert (run.error.kind, run.error.message, run.error.line) == ("PolicyRefusal", refusal.message, refusal.line + 1)
    assert run.error.hint
    assert refusal.hint in run.error.hint
    assert (run.stdout, run.result, run.calls, run.files) == ("began\n", None, [], {})


@attack("jail", "a refusal that is caught")
@pytest.mark.parametrize("catch", ["except Exception", "except BaseException", "except* Exception"])
def test_a_caught_refusal_gives_nothing(box: Sandbox, catch: str) -> None:
    code = (
        f"got = None\ntry:\n    got = getattr(lambda: 0, '__glo' + 'bals__')\n{catch} as e:\n    why = "
        "str(e)\n[got, why]"
    )
    run = box.run_sync(code)
    assert run.status == "completed", run.error
    said = "attribute '__globals__' is not available in the sandbox"
    assert run.result == [None, " (1 sub-exception)" if "*" in catch else said]
