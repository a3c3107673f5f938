"""wasmtime's private parts that we use: component calls without its type look-ups, and settings that it has no
property for.

wasmtime's Python binding asks for the types of a function at every call, which is most of what a crossing costs.
Our world's types are fixed and few (strings, integers, one record, one byte list), so the values are read and
written directly in the C structures. The pinned wasmtime version is part of what this relies on.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from typing import Any

from wasmtime import Config, Store, WasmtimeError
from wasmtime import _bindings as c
from wasmtime import _ffi as ffi
from wasmtime import component as wc

from go_ent.sandbox.worker.end import Stop

Val = c.wasmtime_component_val_t
VAL_SIZE = ctypes.sizeof(Val)
_OF = Val.of.offset  # where the union starts inside a value
_U8, _U32, _U64, _STRING, _LIST, _RECORD, _ENUM, _RESULT = 2, 6, 8, 12, 13, 14, 17, 19  # WASMTIME_COMPONENT_*
_VEC = struct.Struct("@QQ")  # wasm_byte_vec_t: size, data
_U64_AT = struct.Struct("@Q")

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
)
_dll: Any = ffi.dll
_short: Any = ctypes.PyDLL(None, handle=_dll._handle)  # for what is done in no time: others need not be let in for it
_add_func = _dll["wasmtime_component_linker_instance_add_func"]
_add_func.restype = ctypes.c_void_p
_add_func.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, _Callback, ctypes.c_void_p, ctypes.c_void_p]
_vec_new = _short["wasm_byte_vec_new"]
_vec_new.restype = None
_vec_new.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_vec_delete = _short["wasm_byte_vec_delete"]
_vec_delete.restype = None
_vec_delete.argtypes = [ctypes.c_void_p]
_error_new = _dll["wasmtime_error_new"]
_error_new.restype = ctypes.c_size_t
_error_new.argtypes = [ctypes.c_char_p]
_func_call = _dll["wasmtime_component_func_call"]
_func_call.restype = ctypes.c_void_p
_func_call.argtypes = [
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_size_t,
]
_list_new = _dll["wasmtime_component_vallist_new_uninit"]
_list_new.restype = None
_list_new.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_record_new = _dll["wasmtime_component_valrecord_new_uninit"]
_record_new.restype = None
_record_new.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
# All of this process's memory, by address: a look at some bytes takes a quarter of what a call of C does.
_memory = memoryview((ctypes.c_ubyte * sys.maxsize).from_address(0)).cast("B")


class Functions:
    """Host functions for one linker. Keeps the callbacks alive, and the reason of the last `Stop`."""

    def __init__(self) -> None:
        self._alive: list[Any] = []
        self.raised: BaseException | None = None

    def _add(self, instance: wc.LinkerInstance, name: str, body: Callable[[int, int], None]) -> None:
        def callback(
            _data: int, _context: int, _type: int, args: int, _nargs: int, results: int, _nresults: int
        ) -> int:
            try:
                body(args, results)
                return 0
            except BaseException as error:
                self.raised = error
                return int(_error_new(b"stopped by the host"))

        pointer = _Callback(callback)
        self._alive.append(pointer)
        encoded = name.encode()
        error = _add_func(ctypes.cast(instance.ptr(), ctypes.c_void_p), encoded, len(encoded), pointer, None, None)
        if error:
            raise _error(error)

    def text_to_text(self, instance: wc.LinkerInstance, name: str, function: Callable[[bytes], bytes]) -> None:
        """`func(string) -> string`, as UTF-8 bytes."""

        def body(args: int, results: int) -> None:
            answer = function(_string(args))
            _memory[results] = _STRING
            _vec_new(results + _OF, len(answer), answer)

        self._add(instance, name, body)

    def text_in(self, instance: wc.LinkerInstance, name: str, function: Callable[[bytes], None]) -> None:
        """`func(string)`."""
        self._add(instance, name, lambda args, results: function(_string(args)))

    def number_out(self, instance: wc.LinkerInstance, name: str, function: Callable[[], int]) -> None:
        """`func() -> u64`."""

        def body(args: int, results: int) -> None:
            _memory[results] = _U64
            _U64_AT.pack_into(_memory, results + _OF, function())

        self._add(instance, name, body)

    def seconds_out(self, instance: wc.LinkerInstance, name: str, function: Callable[[], int]) -> None:
        """`func() -> record { seconds: u64, nanoseconds: u32 }`, from nanoseconds."""

        def body(args: int, results: int) -> None:
            seconds, nanoseconds = divmod(function(), 1_000_000_000)
            value = Val.from_address(results)
            value.kind = _RECORD
            record = value.of.record
            _record_new(ctypes.addressof(record), 2)
            fields = ((b"seconds", _U64, seconds), (b"nanoseconds", _U32, nanoseconds))
            for index, (field, kind, number) in enumerate(fields):
                entry = record.data[index]
                _vec_new(ctypes.addressof(entry.name), len(field), field)
                entry.val.kind = kind
                entry.val.of.u64 = number

        self._add(instance, name, body)

    def bytes_out(self, instance: wc.LinkerInstance, name: str, function: Callable[[int], bytes]) -> None:
        """`func(length: u64) -> list<u8>`."""

        def body(args: int, results: int) -> None:
            data = function(_U64_AT.unpack_from(_memory, args + _OF)[0])
            _memory[results] = _LIST
            _list_new(results + _OF, len(data))
            items = bytearray(_BYTE_VALUE * len(data))
            items[_OF::VAL_SIZE] = data
            _, start = _VEC.unpack_from(_memory, results + _OF)
            _memory[start : start + len(items)] = items

        self._add(instance, name, body)

    def nothing_out(self, instance: wc.LinkerInstance, name: str) -> None:
        """`func() -> list<…>`: an empty one."""

        def body(args: int, results: int) -> None:
            _memory[results] = _LIST
            _list_new(results + _OF, 0)

        self._add(instance, name, body)

    def deny(self, instance: wc.LinkerInstance, name: str) -> None:
        """`func(…) -> result<…, error-code>` that does nothing: the guest is told `access-denied`."""
        answer = b"access-denied"

        def body(args: int, results: int) -> None:
            code, value = Val(), Val.from_address(results)
            code.kind, value.kind = _ENUM, _RESULT
            _vec_new(ctypes.addressof(code.of.enumeration), len(answer), answer)
            value.of.result.is_ok = False
            value.of.result.val = c.wasmtime_component_val_new(ctypes.byref(code))

        self._add(instance, name, body)

    def refuse(self, instance: wc.LinkerInstance, name: str, why: str) -> None:
        """A function that ends the guest."""

        def body(args: int, results: int) -> None:
            raise Stop(why)

        self._add(instance, name, body)


_BYTE_VALUE = bytes([_U8]) + bytes(VAL_SIZE - 1)


def set_stacks(config: Config, size: int) -> None:
    """How much stack a guest's calls have."""
    # wasmtime insists that its other kind of stack, which is never made here, be larger still.
    c.wasmtime_config_async_stack_size_set(config.ptr(), 2 * size)
    config.max_wasm_stack = size
    # Without it every call runs on a stack of its own, made and thrown away for each guest.
    c.wasmtime_config_concurrency_support_set(config.ptr(), False)


def _error(pointer: int) -> WasmtimeError:
    return WasmtimeError._from_ptr(ctypes.cast(pointer, ctypes.POINTER(c.wasmtime_error_t)))


def _string(value: int) -> bytes:
    """What a string holds. An argument's is let go of by wasmtime."""
    size, data = _VEC.unpack_from(_memory, value + _OF)
    return bytes(_memory[data : data + size]) if size else b""


class TextFunction:
    """An exported `func(string) -> string`."""

    def __init__(self, store: Store, function: wc.Func) -> None:
        self._function = function._func
        self._at = ctypes.addressof(self._function)
        self._context = ctypes.cast(store._context(), ctypes.c_void_p).value

    def __call__(self, text: bytes) -> bytes:
        argument, answer = Val(), Val()
        at, answer_at = ctypes.addressof(argument), ctypes.addressof(answer)
        argument.kind = _STRING
        _vec_new(at + _OF, len(text), text)
        try:
            error = _func_call(self._at, self._context, at, 1, answer_at, 1)
        finally:
            _vec_delete(at + _OF)
        if error:
            raise _error(error)
        text = _string(answer_at)
        _vec_delete(answer_at + _OF)
        return text
