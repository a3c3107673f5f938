"""The machine that makes guests: one wasmtime engine, one compiled image, and the imports a guest gets."""

from __future__ import annotations

import re
from typing import Protocol

from wasmtime import Config, Engine, Store, WasiConfig, WasmtimeError
from wasmtime import component as wc

from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.memory import MemoryMeter, own_map
from go_ent.sandbox.worker.seam import Seam
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


class Machine:
    """Makes guests from one compiled artefact. One guest of a machine runs at a time."""

    def __init__(self, artefact: str, *, fuel: bool = False) -> None:
        self.artefact = artefact
        self.fuel = fuel
        self.engine = Engine(configuration(fuel=fuel))
        self.component = wc.Component.deserialize_file(self.engine, artefact)
        self.port: Port | None = None
        self.seam = Seam()
        self.functions = Functions()
        self.linker = self._link()

    def _link(self) -> wc.Linker:
        linker = wc.Linker(self.engine)
        linker.allow_shadowing = True
        linker.add_wasip2()
        functions = self.functions
        with linker.root() as root:
            functions.text_to_text(root, "exchange", lambda message: self._port.exchange(message))
            functions.text_in(root, "write", lambda text: self._port.write(text))
            functions.text_in(root, "keep", lambda code: self._port.keep(code))
            with root.add_instance(f"wasi:clocks/monotonic-clock{WASI}") as clock:
                functions.number_out(clock, "now", lambda: self.seam.monotonic_ns())
                functions.number_out(clock, "resolution", lambda: 1)
                # These would block inside WASI, where neither a limit nor an interrupt reaches.
                functions.refuse(clock, "subscribe-instant", "blocked")
                functions.refuse(clock, "subscribe-duration", "blocked")
            with root.add_instance(f"wasi:clocks/wall-clock{WASI}") as clock:
                functions.seconds_out(clock, "now", lambda: self.seam.wall_ns())
                functions.seconds_out(clock, "resolution", lambda: 1)
            with root.add_instance(f"wasi:random/random{WASI}") as random:
                functions.bytes_out(random, "get-random-bytes", self._random_bytes)
            self._deny_network(root)
        return linker

    def _deny_network(self, root: wc.LinkerInstance) -> None:
        """No sockets and no names: wasmtime would deny them too, but only after it has asked the system for them."""
        functions = self.functions
        for kind in ("tcp", "udp"):
            with root.add_instance(f"wasi:sockets/{kind}-create-socket{WASI}") as sockets:
                functions.deny(sockets, f"create-{kind}-socket")
        with root.add_instance(f"wasi:sockets/ip-name-lookup{WASI}") as lookup:
            functions.deny(lookup, "resolve-addresses")
            stream = "resolve-address-stream"  # which nobody ever gets
            lookup.add_resource(stream, wc.ResourceType.host(0), lambda store, resource: None)
            functions.refuse(lookup, f"[method]{stream}.resolve-next-address", "outside")
            functions.refuse(lookup, f"[method]{stream}.subscribe", "outside")

    @property
    def _port(self) -> Port:
        if self.port is None:
            raise Stop("outside")
        return self.port

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
    """A fresh instance of the image: memory that nothing else has ever touched, and nothing granted."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.store = Store(machine.engine)
        self.seam = Seam()
        self.touched = False
        wasi = WasiConfig()  # no files, no sockets, no environment, no arguments
        self.store.set_wasi(wasi)
        self._arm()
        self.store.set_limits(memory_size=-1, instances=100, tables=20, memories=20)
        with own_map.lock:
            instance = machine.linker.instantiate(self.store, machine.component)
            self._meter = MemoryMeter(machine.artefact)
        function = instance.get_func(self.store, "run")
        assert function is not None, "the image has no `run`"
        self._run = TextFunction(self.store, function)
        if machine.fuel:
            # Fuel is counted from the same state always, pre-made or not.
            self.touch()

    def _arm(self) -> None:
        if self.machine.fuel:
            self.store.set_fuel(TOUCH_FUEL)

    def touch(self) -> None:
        """Take the page faults of a first run now. Runs only the image's own code."""
        if not self.touched:
            self.touched = True
            self.machine.port, self.machine.seam = None, self.seam
            self._arm()
            self._run(b"")
            self._meter.size()

    def wake(self) -> None:
        """Write to the descriptors that go nowhere. WASI makes threads for the first write of a process: a worker
        may make none.
        """
        self.machine.port, self.machine.seam = None, self.seam
        self._arm()
        self._run(b"wake")

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
            machine.port = None
            machine.functions.raised = None

    def fuel_left(self) -> int:
        return self.store.get_fuel()

    def memory_size(self) -> int:
        """The size of its linear memory, which never shrinks: the peak so far."""
        return self._meter.size()

    def close(self) -> None:
        with own_map.lock:
            self.store.close()
            self._meter.close()


def _trap(message: str) -> str:
    """What wasmtime gives as the cause; the rest of its message is a backtrace of names that mean nothing here."""
    found = re.search(r"wasm trap: (.*)", message)
    cause = found.group(1) if found else message.strip().splitlines()[-1]
    cause = cause.strip()
    known = {"all fuel consumed by WebAssembly": "fuel", "call stack exhausted": "stack"}
    return known.get(cause, cause[-200:])


def compile_file(component: str, artefact: str, *, fuel: bool) -> None:
    """Compile a component to an artefact that a machine of the same kind can load."""
    compiled = wc.Component.from_file(Engine(configuration(fuel=fuel)), component)
    with open(artefact, "wb") as file:
        file.write(compiled.serialize())
