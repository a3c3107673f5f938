"""What the reset of guests rests on, read from an image when it is built.

A used guest is made fresh by restoring its memory (`worker/snapshot.py`). That is enough only if a run that has
answered leaves nothing else behind. Four facts about the component's core modules say so:

- no instruction changes a table, drops a segment or throws: tables, elements, data and exceptions stay as they are;
- the only global that code sets is the stack pointer, imported or exported as such, which compiled code puts back
  before it returns to the host. Besides, the WASI adapter sets two of its own until it has started, which it has; and
  dead code sets those of the dynamic linker;
- there is one memory, of one instance;
- the component makes no handles of its own. (Those of WASI it never gets: `worker/machine.py` answers no import that
  hands one out.)

The modules are decoded to the last instruction. What is not understood is a broken fact, not a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.sandbox.images.wasm_binary import (
    CANON,
    CODE,
    COMPONENT,
    CORE_INSTANCE,
    CORE_MODULE,
    ELEMENT,
    EXPORT,
    GLOBAL,
    IMPORT,
    MEMORY,
    START,
    TAG,
    number,
    sections,
)

FUNCTION, TABLE_KIND, MEMORY_KIND, GLOBAL_KIND = range(4)
STACK_POINTER_NAME = "__stack_pointer"
STACK_POINTER = f"env.{STACK_POINTER_NAME}"
ADAPTER = {"cabi_import_realloc", "cabi_export_realloc", "reset_adapter_state"}
STARTED = [0, 2]  # its state, which is not used any more, and that its stack is there

_N = rb"[\x80-\xff]*+[\x00-\x7f]"  # a LEB128 number
_HARMLESS = (
    rb"[\x00\x01\x05\x0b\x0f\x1a\x1b\x45-\xc4\xd1]"  # without an argument
    rb"|[\x02-\x04\x0c\x0d\x20-\x23\x25\x41\x42\xd0]" + _N +  # with one: blocks, branches, locals, constants
    rb"|\x11" + _N + _N +  # call_indirect
    rb"|[\x28-\x3e][\x00-\x3f]" + _N +  # loads and stores, of the one memory
    rb"|\x1c\x01[\x00-\xff]|[\x3f\x40]\x00|\x43[\x00-\xff]{4}|\x44[\x00-\xff]{8}"
    rb"|\xfc(?:[\x00-\x07]|\x0a\x00\x00|\x0b\x00|\x10" + _N + rb")"  # conversions, memory.copy and fill, table.size
)  # fmt: skip
_CALL = rb"|\x10" + _N
SAFE = re.compile(rb"(?:" + _HARMLESS + _CALL + rb")*+")
SAFE_BUT_CALLS = re.compile(rb"(?:" + _HARMLESS + rb")*+")
CONSTANT = re.compile(rb"(?:\x41(?P<value>" + _N + rb")|(?:[\x23\x41]" + _N + rb"|\x6a)+)\x0b")
CALL_OP, BR_TABLE, GLOBAL_SET, REF_FUNC = 0x10, 0x0E, 0x24, 0xD2


class Broken(Exception):
    """Internal: a fact does not hold, or something is not understood. Its text says which."""


@dataclass
class CoreModule:
    """What a core module says of itself."""

    imported_functions: int = 0
    globals: list[str] = field(default_factory=list)  # names of the imported ones
    values: list[int] = field(default_factory=list)  # of those it defines
    mutable: bool = False  # whether it defines one that can change
    exported: dict[str, int] = field(default_factory=dict)  # functions
    stack_pointer: int = -1  # which of its own globals it exports as that
    in_tables: set[int] = field(default_factory=set)
    memories: int = 0
    bodies: list[tuple[int, int]] = field(default_factory=list)
    setters: dict[str, set[int]] = field(default_factory=dict)  # which functions set a global, by its name


def problem_of(component: bytes) -> str:
    """The fact that does not hold for this component; "" if all do."""
    try:
        memories = 0
        instances = _instances(component)
        for index, (start, end) in enumerate(core_modules(component)):
            module = read_module(component, start, end)
            memories += module.memories * instances.count(index)
            _check_globals(component, module)
        if memories != 1:
            raise Broken(f"it has {memories} memories")
    except Broken as error:
        return str(error)
    except (IndexError, UnicodeDecodeError) as error:
        return f"it can't be decoded: {error}"
    return ""


def globals_of(component: bytes) -> tuple[tuple[int, ...], ...]:
    """For each core module with globals that can change, the values of all it defines."""
    modules = [read_module(component, start, end, code=False) for start, end in core_modules(component)]
    return tuple(tuple(module.values) for module in modules if module.mutable)


def core_modules(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Where the core modules of a component, and of those inside it, start and end. Checks what makes handles."""
    end = len(data) if end is None else end
    for kind, start, stop in sections(data, at, end):
        if kind == CORE_MODULE:
            yield start, stop
        elif kind == COMPONENT:
            yield from core_modules(data, start, stop)
        elif kind == CANON:
            _check_canon(data, start, stop)


def _instances(data: bytes) -> list[int]:
    """The core modules that the component instantiates, by their numbers, as often as it does. One inside another is
    not understood.
    """
    found: list[int] = []
    for kind, start, end in sections(data, 0, len(data)):
        if kind == COMPONENT and any(core_modules(data, start, end)):
            raise Broken("a component inside it has modules")
        if kind == CORE_INSTANCE:
            found += _instantiated(data, start)
    return found


def _instantiated(data: bytes, at: int) -> Iterator[int]:
    count, at = number(data, at)
    for _ in range(count):
        how = data[at]
        entries, at = number(data, at + 1)
        if how == 0x00:  # of a module, with arguments
            yield entries
            entries, at = number(data, at)
        elif how != 0x01:  # of exports
            raise Broken(f"an instance of kind {how:#x} is not known")
        for _ in range(entries):
            _, at = _name(data, at)
            _, at = number(data, at + 1)


def _check_canon(data: bytes, at: int, end: int) -> None:
    """Lifting, lowering and dropping; nothing that makes or looks into a handle."""
    count, at = number(data, at)
    for _ in range(count):
        kind = data[at]
        if kind in (0x00, 0x01):  # lift, lower: the function, its options, and of a lifted one the type
            _, at = number(data, at + 2)
            options, at = number(data, at)
            for _ in range(options):
                option = data[at]
                at += 1
                if 0x03 <= option <= 0x05:  # memory, realloc, post-return
                    _, at = number(data, at)
                elif option > 0x02:
                    raise Broken(f"an option {option:#x} of a function is not known")
            if kind == 0x00:
                _, at = number(data, at)
        elif kind == 0x03:
            _, at = number(data, at + 1)
        else:
            raise Broken(f"it has a built-in {kind:#x}, which may make handles")
    if at != end:
        raise Broken("a list of built-ins does not end where it should")


def read_module(data: bytes, start: int, end: int, *, code: bool = True) -> CoreModule:
    """Decode a core module; with *code*, every instruction of it. Raises `Broken`."""
    module = CoreModule()
    for kind, at, stop in sections(data, start, end):
        if kind == IMPORT:
            _read_imports(module, data, at)
        elif kind == MEMORY:
            module.memories = number(data, at)[0]
        elif kind == GLOBAL:
            _read_globals(module, data, at)
        elif kind == EXPORT:
            _read_exports(module, data, at)
        elif kind == START:
            module.exported["the start"] = number(data, at)[0]
        elif kind == ELEMENT:
            _read_elements(module, data, at, stop)
        elif kind == TAG:
            raise Broken("a module has exceptions")
        elif kind == CODE and code:
            _read_code(module, data, at)
    return module


def _read_imports(module: CoreModule, data: bytes, at: int) -> None:
    count, at = number(data, at)
    for _ in range(count):
        place, at = _name(data, at)
        name, at = _name(data, at)
        kind = data[at]
        if kind == FUNCTION:
            module.imported_functions += 1
            _, at = number(data, at + 1)
        elif kind in (TABLE_KIND, MEMORY_KIND):
            at += 1 + (kind == TABLE_KIND)
            bounded = data[at] & 1
            _, at = number(data, at + 1)
            if bounded:
                _, at = number(data, at)
        elif kind == GLOBAL_KIND:
            module.globals.append(f"{place}.{name}")
            at += 3
        else:
            raise Broken(f"an import of kind {kind:#x} is not known")


def _read_globals(module: CoreModule, data: bytes, at: int) -> None:
    count, at = number(data, at)
    for _ in range(count):
        mutable = bool(data[at + 1])
        start = CONSTANT.match(data, at + 2)
        if start is None or (mutable and start["value"] is None):
            raise Broken("a global starts as something that is not known")
        at = start.end()
        module.values.append(_signed(start["value"]) & 0xFFFFFFFF if start["value"] else 0)
        module.mutable = module.mutable or mutable


def _read_exports(module: CoreModule, data: bytes, at: int) -> None:
    count, at = number(data, at)
    for _ in range(count):
        name, at = _name(data, at)
        kind = data[at]
        index, at = number(data, at + 1)
        if kind == FUNCTION:
            module.exported[name] = index
        elif kind == GLOBAL_KIND and name == STACK_POINTER_NAME:
            module.stack_pointer = index - len(module.globals)


def _read_elements(module: CoreModule, data: bytes, at: int, end: int) -> None:
    """Active segments of plain functions, which is what compilers write."""
    count, at = number(data, at)
    for _ in range(count):
        flags, at = number(data, at)
        if flags not in (0, 2):
            raise Broken(f"elements of kind {flags} are not known")
        if flags == 2:
            _, at = number(data, at)
        if data[at] not in (0x23, 0x41):
            raise Broken("elements start at a place that is computed")
        _, at = number(data, at + 1)
        at += 1 + (flags == 2)  # the end of the place; the kind
        functions, at = number(data, at)
        for _ in range(functions):
            index, at = number(data, at)
            module.in_tables.add(index)
    if at != end:
        raise Broken("a list of elements does not end where it should")


def _read_code(module: CoreModule, data: bytes, at: int) -> None:
    count, at = number(data, at)
    for index in range(module.imported_functions, module.imported_functions + count):
        size, at = number(data, at)
        body = _after_locals(data, at), at + size
        module.bodies.append(body)
        for opcode, value in _instructions(data, *body, SAFE):
            if opcode == GLOBAL_SET:
                imported = value < len(module.globals)
                own = value - len(module.globals)
                name = module.globals[value] if imported else f"{own} of its own"
                if not imported and own == module.stack_pointer:
                    name = STACK_POINTER
                module.setters.setdefault(name, set()).add(index)
            else:
                module.in_tables.add(value)
        at += size


def _after_locals(data: bytes, at: int) -> int:
    kinds, at = number(data, at)
    for _ in range(kinds):
        _, at = number(data, at)
        at += 1
    return at


def _instructions(data: bytes, at: int, end: int, harmless: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """The instructions of a body that *harmless* does not pass over, with their number. Raises `Broken`."""
    while True:
        passed = harmless.match(data, at, end)
        assert passed is not None
        at = passed.end()
        if at == end:
            return
        opcode = data[at]
        if opcode == BR_TABLE:
            targets, at = number(data, at + 1)
            for _ in range(targets + 1):
                _, at = number(data, at)
        elif opcode in (GLOBAL_SET, REF_FUNC, CALL_OP):
            value, at = number(data, at + 1)
            yield opcode, value
        else:
            raise Broken(f"an instruction {data[at : at + 2].hex()} may change more than memory")


def _check_globals(data: bytes, module: CoreModule) -> None:
    if module.exported.keys() == ADAPTER and not module.in_tables and module.values[1:] == STARTED:
        return
    setters = {name: functions for name, functions in module.setters.items() if name != STACK_POINTER}
    if not setters:
        return
    reached = {*module.exported.values(), *module.in_tables}
    for body in module.bodies:
        reached |= {value for opcode, value in _instructions(data, *body, SAFE_BUT_CALLS) if opcode == CALL_OP}
    for name, functions in setters.items():
        if functions & reached:
            raise Broken(f"the global {name} is set")


def _name(data: bytes, at: int) -> tuple[str, int]:
    size, at = number(data, at)
    return data[at : at + size].decode(), at + size


def _signed(text: bytes) -> int:
    value, _ = number(text, 0)
    return value - (1 << 7 * len(text)) if text[-1] & 0x40 else value
