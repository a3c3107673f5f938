"""The JavaScript image: QuickJS as the quickjs-rs package has it, and our own JavaScript in its memory.

The engine is a core module. It is started here, runs `sandbox/javascript/*.js`, and its memory as it then is becomes
the module's data. A component around it has the world of every guest (`guest/world.wit`). That takes wasmtime and
nothing else; `build` runs in a process of its own.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from go_ent.sandbox.errors import ImageError
from go_ent.sandbox.images.wasm_binary import CORE_MODULE, CUSTOM, DATA, DATA_COUNT, GLOBAL, MEMORY, number, sections
from go_ent.sandbox.worker.paths import package_folder

SOURCES = Path(__file__).parent.parent / "javascript"
# In the order in which they are put together: each may use what stands before it.
SCRIPTS = (
    "primordials encode inspect output bridge files globals locale modules report typescript types schemas tool "
    "authoring runner"
).split()
ENGINE = "_guest.wasm"  # of the package quickjs_rs, version 0.2.6
ENGINE_SHA256 = "647ab11ae29cc6d39a6d17d3aa1e7a6a0b5fb9c44b4864475a18bc644f926050"
WASI = "@0.2.9"

# The engine does not look at its stack when it is built for WASI, and overruns it. It does once it is told where the
# stack ends, which is kept behind the size and the top of the stack. Its own stack of 1 MB is too short for everyday
# recursion, so it gets another one, in front of which lies its heap: the guard is for what it calls before it looks.
STACK = 2 << 20
STACK_GUARD = 128 << 10
STACK_MARK = 0x00ABCDE0  # a size to find the place by
PAGE = 1 << 16
# Constants behind the stack pointer, by which `worker/comparison.py` finds it in a process's memory.
MARKS = (0x6A73_0001, 0x6A73_0203, 0x6A73_0405)
# What the engine imports: its parameters and its result.
IMPORTS = {
    "host_call": ("i32 i32 i32 i32 i32", "i32"),
    "host_interrupt": ("", "i32"),
    "host_module_normalize": ("i32 i32 i32 i32 i32", "i32"),
    "host_module_load": ("i32 i32 i32", "i32"),
    "random_get": ("i32 i32", "i32"),
    "environ_get": ("i32 i32", "i32"),
    "environ_sizes_get": ("i32 i32", "i32"),
    "clock_time_get": ("i32 i64 i32", "i32"),
    "fd_close": ("i32", "i32"),
    "fd_fdstat_get": ("i32 i32", "i32"),
    "fd_seek": ("i32 i64 i32 i32", "i32"),
    "fd_write": ("i32 i32 i32 i32", "i32"),
    "proc_exit": ("i32", ""),
}


def parts() -> Iterator[bytes]:
    """What the image is made of."""
    yield ENGINE_SHA256.encode()
    for path in [Path(__file__), SOURCES / "adapter.wat", *(SOURCES / f"{name}.js" for name in SCRIPTS)]:
        yield path.read_bytes()


def engine() -> Path:
    return package_folder("quickjs_rs") / ENGINE


def build(engine_path: str, target: str) -> None:
    """Write the component. Raises `ImageError` if the engine is not the one that this was written for."""
    module = Path(engine_path).read_bytes()
    if hashlib.sha256(module).hexdigest() != ENGINE_SHA256:
        raise ImageError(f"{engine_path} is not the engine that is expected; install quickjs-rs==0.2.6")
    guest = _Engine(module)
    handles = guest.prepare()
    frozen = _freeze(module, guest.memory(), guest.stack_top)
    Path(target).write_bytes(_component(frozen, handles))


def _no() -> int:
    return 0


def _nothing(*_: int) -> int:
    return -1


class _Engine:
    """The engine while the image is built."""

    def __init__(self, module: bytes) -> None:
        from wasmtime import Engine, FuncType, Linker, Module, Store, ValType, WasiConfig

        types = {"i32": ValType.i32, "i64": ValType.i64}
        engine = Engine()
        self._store = Store(engine)
        self._store.set_wasi(WasiConfig())
        linker = Linker(engine)
        linker.define_wasi()
        for name, (parameters, result) in IMPORTS.items():
            if name.startswith("host_"):
                kind = FuncType([types[one]() for one in parameters.split()], [types[one]() for one in result.split()])
                linker.define_func("env", name, kind, _no if name == "host_interrupt" else _nothing)
        self._exports: Any = linker.instantiate(self._store, Module(engine, module)).exports(self._store)
        self.stack_top = 0

    def _call(self, name: str, *arguments: int) -> int:
        value: int = self._exports[name](self._store, *arguments)
        return value

    def _put(self, data: bytes) -> int:
        address = self._call("qjs_alloc", len(data))
        self._exports["memory"].write(self._store, data, address)
        return address

    def memory(self) -> bytes:
        memory = self._exports["memory"]
        return bytes(memory.read(self._store, 0, memory.data_len(self._store)))

    def _word(self, address: int) -> int:
        return int(struct.unpack("<i", bytes(self._exports["memory"].read(self._store, address, address + 4)))[0])

    def _text(self, handle: int) -> str:
        if self._call("get_string", handle):
            return "?"
        start = self._call("qjs_last_ptr")
        data = bytes(self._exports["memory"].read(self._store, start, start + self._call("qjs_last_len")))
        self._call("qjs_result_free")
        return data.decode("utf-8", "replace")

    def _property(self, handle: int, name: str) -> int:
        text, out = name.encode(), self._put(bytes(4))
        self._check(self._call("get_prop", handle, self._put(text), len(text), out))
        return self._word(out)

    def _check(self, status: int) -> None:
        if status:
            out = self._put(bytes(4))
            self._call("last_exception", out)
            error = self._word(out)
            said = [self._text(self._property(error, name)) for name in ("message", "stack")]
            raise ImageError("the JavaScript of the image fails: " + "\n".join(said))

    def _module(self, source: str) -> None:
        """Run a module, whose name is not one that the code of a run has: its frames are not theirs."""
        text, name, out = source.encode(), b"<go-ent>", self._put(bytes(4))
        address = self._put(text)
        self._check(self._call("eval_module", address, len(text), self._put(name), len(name), out))
        self._call("qjs_free", address, len(text))
        while self._call("execute_pending_jobs") > 0:
            pass

    def _invoke(self, function: int, *arguments: int) -> int:
        out = self._put(bytes(4))
        listed = self._put(struct.pack(f"<{len(arguments)}i", *arguments))
        self._check(self._call("call_function", function, self._undefined, listed, len(arguments), out))
        return self._word(out)

    def prepare(self) -> dict[str, int]:
        """Run our own JavaScript; the handles and addresses that the adapter needs."""
        self._undefined = self._call("new_undefined")  # which starts the engine
        self._move_stack()
        scripts = "\n".join((SOURCES / f"{name}.js").read_text() for name in SCRIPTS)
        doors = "exchange write keep random evaluate".split()
        self._module(f"globalThis.setup = function ({', '.join(doors)}) {{ {scripts}\n}}")
        setup = self._property(self._call("global_object"), "setup")
        functions = []
        for name in ("exchange", "write", "keep", "random", "v"):
            functions.append(self._call("new_function", self._put(name.encode()), len(name)))
        entries = self._invoke(setup, *functions)
        start, idle = (self._property(entries, name) for name in ("start", "idle"))
        scratch = self._put(bytes(64))
        self._call("run_gc")
        return {"undefined": self._undefined, "start": start, "idle": idle, "scratch": scratch}

    def _move_stack(self) -> None:
        from wasmtime import Val

        memory = self._exports["memory"]
        self._call("set_max_stack_size", STACK_MARK)
        before = self.memory()
        top = self._exports["__stack_pointer"].value(self._store)
        mark = struct.pack("<I", STACK_MARK)
        places = []
        at = before.find(mark)
        while at >= 0:
            if top - 4096 < struct.unpack_from("<I", before, at + 4)[0] <= top and before[at + 8 : at + 12] == bytes(4):
                places.append(at)
            at = before.find(mark, at + 1)
        if len(places) != 1:
            raise ImageError("the engine keeps the end of its stack elsewhere; install quickjs-rs==0.2.6")
        start = memory.data_len(self._store)
        memory.grow(self._store, STACK // PAGE)
        self.stack_top = start + STACK
        self._exports["__stack_pointer"].set_value(self._store, Val.i32(self.stack_top))
        memory.write(self._store, struct.pack("<III", STACK, self.stack_top, start + STACK_GUARD), places[0])


def _freeze(module: bytes, memory: bytes, stack_top: int) -> bytes:
    """The module with that memory as its data, and its one global, the stack pointer, where it is."""
    out = bytearray(module[:8])
    for kind, start, end in sections(module, 0, len(module)):
        body = module[start:end]
        if kind in (CUSTOM, DATA_COUNT):
            continue
        if kind == MEMORY:
            count, at = number(body, 0)
            _, rest = number(body, at + 1)
            if count != 1:
                raise ImageError("the engine has more than one memory")
            body = b"\x01" + body[at : at + 1] + _unsigned(len(memory) // PAGE) + body[rest:]
        elif kind == GLOBAL:
            if body[:4] != b"\x01\x7f\x01\x41":
                raise ImageError("the engine has other globals than its stack pointer")
            marks = b"".join(b"\x7f\x00\x41" + _signed(mark) + b"\x0b" for mark in MARKS)
            body = bytes([1 + len(MARKS)]) + body[1:4] + _signed(stack_top) + b"\x0b" + marks
        elif kind == DATA:
            segments = list(_segments(memory))
            body = _unsigned(len(segments)) + b"".join(segments)
        out += bytes([kind]) + _unsigned(len(body)) + body
    return bytes(out)


def _segments(memory: bytes) -> Iterator[bytes]:
    """What is not zero of the memory, in pieces."""
    at = 0
    while at < len(memory):
        end = at
        while end < len(memory) and memory[end : end + PAGE].strip(b"\0"):
            end += PAGE
        if end > at:
            yield b"\x00\x41" + _signed(at) + b"\x0b" + _unsigned(end - at) + memory[at:end]
        at = end + PAGE


def _component(guest: bytes, handles: dict[str, int]) -> bytes:
    """The component: the text of it with an empty core module, in whose place *guest* is put."""
    from wasmtime import wat2wasm

    adapter = (SOURCES / "adapter.wat").read_text()
    for name, value in handles.items():
        adapter = adapter.replace(f"%%{name}%%", str(value))
    binary = bytes(
        wat2wasm(
            _TEXT.format(wasi=WASI, links=_links(), adapter=adapter.replace("(module", "(core module $adapter", 1))
        )
    )
    out = bytearray(binary[:8])
    placed = False
    for kind, start, end in sections(binary, 0, len(binary)):
        if kind == CUSTOM:
            continue
        body = binary[start:end]
        if kind == CORE_MODULE and not placed:
            body, placed = guest, True
        out += bytes([kind]) + _unsigned(len(body)) + body
    return bytes(out)


def _links() -> str:
    """Two modules by which the engine gets its imports from the adapter, which itself needs the engine's memory: one
    that calls by a table, and one that fills it.
    """
    count = len(IMPORTS)
    early = f'(core module $early (table (export "t") {count} {count} funcref)\n'
    late = f'(core module $late (import "early" "t" (table {count} funcref))\n'
    for index, (name, (parameters, result)) in enumerate(IMPORTS.items()):
        kind = (f"(param {parameters})" if parameters else "") + (f"(result {result})" if result else "")
        given = " ".join(f"(local.get {at})" for at in range(len(parameters.split())))
        call = f"{given} (call_indirect (type $t{index}) (i32.const {index}))"
        early += f'(type $t{index} (func {kind})) (func (export "{name}") {kind} {call})\n'
        late += f'(import "adapter" "{name}" (func $f{index} {kind}))\n'
    return f"{early})\n{late}(elem (i32.const 0) {' '.join(f'$f{index}' for index in range(count))}))"


_TEXT = """(component
 (import "exchange" (func $exchange (param "message" string) (result string)))
 (import "write" (func $write (param "text" string)))
 (import "keep" (func $keep (param "code" string)))
 (import "wasi:clocks/monotonic-clock{wasi}" (instance $mono (export "now" (func (result u64)))))
 (import "wasi:clocks/wall-clock{wasi}" (instance $wall
   (type $fields (record (field "seconds" u64) (field "nanoseconds" u32)))
   (export "datetime" (type $datetime (eq $fields)))
   (export "now" (func (result $datetime)))))
 (import "wasi:random/random{wasi}" (instance $random
   (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
 (core module $guest)
 {links}
 {adapter}
 (core module $allocator (import "guest" "qjs_alloc" (func $alloc (param i32) (result i32)))
   (func (export "realloc") (param i32 i32 i32 i32) (result i32)
     (if (result i32) (local.get 3) (then (call $alloc (local.get 3))) (else (i32.const 8)))))
 (core instance $e (instantiate $early))
 (core instance $g (instantiate $guest (with "env" (instance $e)) (with "wasi_snapshot_preview1" (instance $e))))
 (core instance $r (instantiate $allocator (with "guest" (instance $g))))
 (alias core export $g "memory" (core memory $memory))
 (alias core export $r "realloc" (core func $realloc))
 (core func $exchange' (canon lower (func $exchange) (memory $memory) (realloc $realloc) string-encoding=utf8))
 (core func $write' (canon lower (func $write) (memory $memory) string-encoding=utf8))
 (core func $keep' (canon lower (func $keep) (memory $memory) string-encoding=utf8))
 (core func $mono' (canon lower (func $mono "now")))
 (core func $wall' (canon lower (func $wall "now") (memory $memory)))
 (core func $random' (canon lower (func $random "get-random-bytes") (memory $memory) (realloc $realloc)))
 (core instance $host (export "exchange" (func $exchange')) (export "write" (func $write'))
   (export "keep" (func $keep')) (export "mono" (func $mono')) (export "wall" (func $wall'))
   (export "random" (func $random')))
 (core instance $a (instantiate $adapter (with "guest" (instance $g)) (with "host" (instance $host))))
 (core instance (instantiate $late (with "early" (instance $e)) (with "adapter" (instance $a))))
 (alias core export $a "run" (core func $run))
 (func (export "run") (param "request" string) (result string)
   (canon lift (core func $run) (memory $memory) (realloc $realloc) string-encoding=utf8))
)"""


def _unsigned(value: int) -> bytes:
    """A LEB128 number without a sign."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _signed(value: int) -> bytes:
    """A LEB128 number with a sign, of one that is not negative."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        if not value and not low & 0x40:
            return bytes((*out, low))
        out.append(low | 0x80)
