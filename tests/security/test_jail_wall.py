"""The wall itself, attacked from an interpreter that is broken already: no policy, and any byte of its memory as it
likes.
"""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterator

import pytest

from go_ent.sandbox import Run, Sandbox
from tests.security.breaking import BREAK_OUT, LINES, PEEK, Host, a_host, goes_on
from tests.security.corpus import attack

DIED = "its worker died"  # where the kernel ends a worker that does what no guest needs
NO_EXIT = "the guest broke: it called wasi:cli/exit@0.2.9#exit, which no guest has"
SMALL = {"memory_mb": 64, "cpu_s": 5, "timeout_s": 10}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with a_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def broken(box: Sandbox, host: Host, code: str) -> Run:
    run = box.run_sync(BREAK_OUT + code, host.inputs, limits=SMALL)
    host.untouched(run)
    goes_on(box)
    return run


def case(mechanism: str, code: str, *outcome: str) -> object:
    return pytest.param(code, *outcome, marks=attack("jail", mechanism), id=mechanism)


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        case(
            "the system's own open",
            "modules['posix'].open(secret_file, 0)",
            "FileNotFoundError",
            "[Errno 44] No such file or directory",
        ),
        case(
            "descriptors that were left open",
            "modules['posix'].read(3, 100)",
            "OSError",
            "[Errno 8] Bad file descriptor",
        ),
        case(
            "a hard link from outside",
            "modules['posix'].link(secret_file, 'x')",
            "FileNotFoundError",
            "[Errno 44] No such file",
        ),
        case(
            "the process file system",
            "modules['posix'].readlink('/proc/self/exe')",
            "FileNotFoundError",
            "[Errno 44] No such file",
        ),
        case("a socket that listens", "modules['_socket'].socket()", "PermissionError", "[Errno 2] Permission denied"),
        case(
            "a thread", "modules['_thread'].start_new_thread(real.print, ())", "RuntimeError", "can't start new thread"
        ),
        case(
            "a program",
            "modules['subprocess'].Popen(['/bin/sh'])",
            "OSError",
            "[Errno 58] wasi does not support processes.",
        ),
        case(
            "a native module",
            "operator.attrgetter('__import__')(real)('_ctypes')",
            "ModuleNotFoundError",
            "No module named '_ctypes'",
        ),
        case(
            "the host's modules, put on the path",
            "operator.attrgetter('path')(interpreter).insert(0, real.str(secret_file).rpartition('/')[0])\n"
            "operator.attrgetter('__import__')(real)('secret')",
            "ModuleNotFoundError",
            "No module named 'secret'",
        ),
        case(
            "the clock of the host",
            "import time\noperator.attrgetter('clock_settime')(time)",
            "AttributeError",
            "no attribute 'clock_settime'",
        ),
        case(
            "a wait inside WASI",
            "modules['select'].select([], [], [], 100)",
            "BlockingCall",
            "the code waited in a way that can't be interrupted",
        ),
        case(
            "an unlimited recursion limit",
            "operator.attrgetter('setrecursionlimit')(interpreter)(10**9)\nf = lambda n: [f(n + 1)]\nf(0)",
            "RecursionError",
            "the code nests or recurses too deeply: the stack is exhausted",
        ),
        case(
            "marshalled rubbish",
            "modules['marshal'].loads(b'\\xe3' + b'\\xff' * 100)",
            "ValueError",
            "bad marshal data",
        ),
    ],
)
def test_what_was_not_granted_is_not_there(box: Sandbox, host: Host, code: str, kind: str, message: str) -> None:
    run = broken(box, host, code)
    assert run.error is not None, run.result
    assert (run.status, run.error.kind) == ("error", kind), run.error
    assert message in run.error.message
    if run.error.line is not None:
        assert run.error.line == LINES + code.count("\n") + 1


@pytest.mark.parametrize(
    ("code", "why"),
    [
        case("an abort", "modules['posix'].abort()", "the guest broke: wasm `unreachable` instruction executed"),
        case(
            "an exit of the process",
            "modules['posix']._exit(0)",
            NO_EXIT,
        ),
        case(
            "a signal to itself",
            "modules['signal'].raise_signal(9)",
            "the guest broke: wasm `unreachable` instruction executed",
        ),
        case(
            "a fault on purpose",
            "modules['faulthandler']._sigsegv()",
            "the guest broke: wasm `unreachable` instruction executed",
        ),
        case("reading past the memory", PEEK + "memory[200_000_000]", "the guest broke: out of bounds memory access"),
        case(
            "writing past the memory", PEEK + "memory[200_000_000] = 1", "the guest broke: out of bounds memory access"
        ),
        case(
            "wiping all of its memory",
            PEEK + "zero = bytes(1 << 16)\nfor n in range(1024, 30_000_000, 1 << 16): memory[n:n + (1 << 16)] = zero",
            "the guest broke: ",
        ),
        case(
            "an object whose functions are nowhere",
            PEEK
            + "kind = bytearray(b'\\xf0\\xff\\xff\\x7f' * 100)\n"
            + "where = real.int.from_bytes(memory[id(kind) + 19:id(kind) + 23], 'little')\n"
            + "thing = struct.pack('<II', 1 << 20, where)\n"
            + "memory[address(pointer) - 1:address(pointer) + 3] = struct.pack('<I', "
            "address(thing))\nreal.eval(forged)()",
            "the guest broke: out of bounds memory access",
        ),
        case(
            "bytecode that no compiler writes",
            "def f(): pass\nreal.eval(operator.attrgetter('__code__')(f).replace(co_code=b'\\xff\\xff' * 200))",
            "the guest broke: wasm `unreachable` instruction executed",
        ),
        case(
            "bytecode that empties the stack",
            "ops = operator.attrgetter('opmap')(modules['opcode'])\ndef f(): pass\n"
            "code = bytes([ops['RESUME'], 0] + [ops['POP_TOP'], 0] * 5000 + [ops['RETURN_VALUE'], 0])\n"
            "real.eval(operator.attrgetter('__code__')(f).replace(co_code=code))",
            "the guest broke: ",
        ),
        case(
            "a host function that is not there",
            "modules['componentize_py_runtime'].call_import(99, ['x'])",
            "the guest broke: wasm `unreachable` instruction executed",
        ),
        case(
            "a handle that is not its own",
            "modules['componentize_py_runtime'].drop_resource(0, 12345)",
            "the guest broke: uninitialized element",
        ),
    ],
)
def test_a_broken_guest_breaks_only_itself(box: Sandbox, host: Host, code: str, why: str) -> None:
    run = broken(box, host, code)
    assert run.error is not None, run.result
    assert (run.status, run.error.kind, run.result, run.files) == ("crashed", "crashed", None, {})
    assert run.error.message.startswith(f"the run was lost: {why}") or run.error.message.endswith(DIED)
    assert run.error.hint == "it can be run again; nothing else was affected"


@attack("jail", "the output of the process it runs in")
def test_the_standard_streams_lead_nowhere(box: Sandbox, host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    run = broken(
        box,
        host,
        "posix, said = modules['posix'], []\n"
        "for do in (lambda: posix.write(1, b'leak'), lambda: posix.write(2, b'leak'), lambda: posix.read(0, 9)):\n"
        "    try:\n        said.append(do())\n    except OSError as error:\n        said.append(error.strerror)\nsaid",
    )
    assert run.result == ["Bad file descriptor"] * 3
    assert run.stdout == ""
    assert tuple(capfd.readouterr()) == ("", "")


@attack("jail", "the whole of its memory, looked through")
def test_nothing_of_the_host_is_in_its_memory(box: Sandbox, host: Host) -> None:
    """The secret is in the host's memory, environment and files. The guest is told half of it, and looks for the
    rest.
    """
    code = (
        "start, found, at = bytes.fromhex(half), [], 0\n"
        "while (at := memory.find(start, at + 1, size)) > 0: found.append(bytes(memory[at:at + "
        "64]).decode('latin-1'))\nfound"
    )
    half = host.secret[: len(host.secret) // 2]
    inputs = {"half": half.encode().hex(), "size": box.image.memory_bytes - (1 << 16)}
    run = box.run_sync(BREAK_OUT + PEEK + code, inputs, limits=SMALL)
    assert run.status == "completed", run.error
    assert isinstance(run.result, list)
    assert half in str(run.result)  # it does find what it was told
    host.untouched(run)


@attack("jail", "what the machine is")
def test_the_machine_is_not_told(box: Sandbox, host: Host) -> None:
    code = "import os, platform\n[*os.uname(), platform.node(), os.getcwd(), os.getpid(), os.cpu_count()]"
    run = broken(box, host, code)
    assert isinstance(run.result, list)
    assert run.result == ["wasi", "(none)", "0.0.0", "0.0.0", "wasm32", "(none)", "/home/guest", 1, 1]
    assert not {platform.release(), socket.gethostname()} & {str(value) for value in run.result}
