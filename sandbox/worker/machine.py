"""The machine that makes guests: one wasmtime engine, one compiled image, and the imports a guest gets."""

from __future__ import annotations

import re
from typing import Protocol

from wasmtime import Config, Engine, Store, WasmtimeError
from wasmtime import component as wc

from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.memory import MemoryMeter
from go_ent.sandbox.worker.seam import Seam
from go_ent.sandbox.worker.snapshot import Snapshot
from go_ent.sandbox.worker.wasmtime_adapter import Functions, TextFunction, set_stacks

STACK_BYTES = 16 << 20
THREAD_STACK_BYTES = 64 << 20
WASI = "@0.2.9"
TOUCH_FUEL = 1 << 62


def configuration(*, fuel: bool) -> Config:
    """The wasmtime configuration of an artefact kind. An artefact only loads under the one that compiled it."""
    config = Config()
    config.wasm_component_model = True
    config.consume_fuel = fuel
    # Large enough that CPython notices by itself that its own stack, of 1 MiB in linear memory, is exhausted:
    # then it raises. Guests run in threads whose stack is larger still.
    set_stacks(config, STACK_BYTES)
    return config


class Port(Protocol):
    """Where a running guest's imports go."""

    def exchange(self, message: bytes) -> bytes: ...
    def write(self, text: bytes) -> None: ...
    def keep(self, code: bytes) -> None: ...


class OwnPort:
    """Answers the image's own code, which makes one call at the most."""

    def exchange(self, message: bytes) -> bytes:
        return b"1.0\n[[1,1,1]]"

    def write(self, text: bytes) -> None:
        pass

    def keep(self, code: bytes) -> None:
        raise Stop("outside")


class NoPort:
    """Ends a guest that calls while none runs."""

    def exchange(self, message: bytes) -> bytes:
        raise Stop("outside")

    def write(self, text: bytes) -> None:
        raise Stop("outside")

    def keep(self, code: bytes) -> None:
        raise Stop("outside")


NO_PORT = NoPort()


class Machine:
    """Makes guests from one compiled artefact. One guest of a machine runs at a time."""

    def __init__(self, artefact: str, *, fuel: bool = False) -> None:
        self.artefact = artefact
        self.fuel = fuel
        self.engine = Engine(configuration(fuel=fuel))
        self.component = wc.Component.deserialize_file(self.engine, artefact)
        self.port: Port = NO_PORT
        self.seam = Seam()
        self.functions = Functions()
        self.linker = self._link()

    def _link(self) -> wc.Linker:
        """The imports that are answered, none of which leaves a handle behind. All others trap."""
        linker = wc.Linker(self.engine)
        functions = self.functions
        with linker.root() as root:
            functions.text_to_text(root, "exchange", lambda message: self.port.exchange(message))
            functions.text_in(root, "write", lambda text: self.port.write(text))
            functions.text_in(root, "keep", lambda code: self.port.keep(code))
            with root.add_instance(f"wasi:cli/environment{WASI}") as environment:
                functions.nothing_out(environment, "get-environment")
                functions.nothing_out(environment, "get-arguments")
            with root.add_instance(f"wasi:filesystem/preopens{WASI}") as folders:
                functions.nothing_out(folders, "get-directories")
            with root.add_instance(f"wasi:clocks/monotonic-clock{WASI}") as clock:
                functions.number_out(clock, "now", lambda: self.seam.monotonic_ns())
                functions.number_out(clock, "resolution", lambda: 1)
                # A wait here could be neither limited nor interrupted.
                functions.refuse(clock, "subscribe-instant", "blocked")
                functions.refuse(clock, "subscribe-duration", "blocked")
            with root.add_instance(f"wasi:clocks/wall-clock{WASI}") as clock:
                functions.seconds_out(clock, "now", lambda: self.seam.wall_ns())
                functions.seconds_out(clock, "resolution", lambda: 1)
            with root.add_instance(f"wasi:random/random{WASI}") as random:
                functions.bytes_out(random, "get-random-bytes", self._random_bytes)
            for kind in ("tcp", "udp"):
                with root.add_instance(f"wasi:sockets/{kind}-create-socket{WASI}") as sockets:
                    functions.deny(sockets, f"create-{kind}-socket")
        linker.define_unknown_imports_as_traps(self.component)
        return linker

    def _random_bytes(self, size: int) -> bytes:
        if size > 1 << 20:
            raise Stop("random")
        return self.seam.random_bytes(size)

    def guest(self) -> Guest:
        return Guest(self)

    def close(self) -> None:
        self.linker.close()
        self.component.close()
        self.engine.close()


class Guest:
    """An instance of the image, ready for a run: its memory is nobody else's, and nothing is granted to it.

    A process has one at a time. With a `snapshot` it can be taken back to where it was before a run.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.store = Store(machine.engine)
        self.seam = Seam()
        self.snapshot: Snapshot | None = None
        self.store.set_limits(memory_size=-1, instances=100, tables=20, memories=20)
        self._arm()
        instance = machine.linker.instantiate(self.store, machine.component)
        function = instance.get_func(self.store, "run")
        assert function is not None, "the image has no `run`"
        self._run = TextFunction(self.store, function)
        self._requests = self._run_own(b"").split(b"\n")  # it takes the page faults of a first run, and names others
        self.meter = MemoryMeter(machine.artefact)

    def _arm(self) -> None:
        if self.machine.fuel:
            self.store.set_fuel(TOUCH_FUEL)

    def _run_own(self, request: bytes) -> bytes:
        """Run the image's own code, to which nothing is granted either."""
        self.machine.port, self.machine.seam = OwnPort(), self.seam
        self._arm()
        try:
            return self._run(request)
        finally:
            self.machine.port = NO_PORT

    def touch(self) -> None:
        """Write to the pages that most runs write to."""
        for request in self._requests:
            self._run_own(request)

    def take_snapshot(self) -> None:
        """Have the guest go back to where it is now after each run. Raises `Unsupported`."""
        self.snapshot = Snapshot(self.meter)
        for request in self._requests:
            self._run_own(request)
            self.snapshot.learn()
        self.snapshot.choose()

    def run(self, request: bytes, port: Port, *, memory_bytes: int | None, fuel: int | None = None) -> End:
        machine = self.machine
        machine.port, machine.seam = port, self.seam
        machine.functions.raised = None
        self.store.set_limits(memory_size=-1 if memory_bytes is None else memory_bytes)
        if fuel is not None:
            self.store.set_fuel(fuel)
        try:
            return End(answer=self._run(request))
        except WasmtimeError as error:
            raised = machine.functions.raised
            if isinstance(raised, Stop):
                return End(reason=str(raised))
            if raised is not None:
                raise raised from None
            return End(trap=_trap(str(error)))
        finally:
            machine.port = NO_PORT
            machine.functions.raised = None

    def fuel_left(self) -> int:
        return self.store.get_fuel()

    def close(self) -> None:
        self.store.close()


def _trap(message: str) -> str:
    """What wasmtime gives as the cause; the rest of its message is a backtrace of names that mean nothing here."""
    found = re.search(r"wasm trap: (.*)", message)
    cause = found.group(1) if found else message.strip().splitlines()[-1]
    cause = re.sub(r"unknown import: `([^`]*)`.*", r"it called \1, which no guest has", cause.strip())
    known = {"all fuel consumed by WebAssembly": "fuel", "call stack exhausted": "stack"}
    return known.get(cause, cause[-200:])


def compile_file(component: str, artefact: str, *, fuel: bool) -> None:
    """Compile a component to an artefact that a machine of the same kind can load."""
    compiled = wc.Component.from_file(Engine(configuration(fuel=fuel)), component)
    with open(artefact, "wb") as file:
        file.write(compiled.serialize())
