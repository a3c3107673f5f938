"""What the reset of guests rests on is read from the image: each fact, and each way to break it."""

from __future__ import annotations

import pytest
from wasmtime import wat2wasm

from go_ent.sandbox.images import ensure_image
from go_ent.sandbox.images.proof import core_modules, globals_of, problem_of, read_module
from tests.support.rows import each


@pytest.fixture(scope="module")
def component() -> bytes:
    return ensure_image().component.read_bytes()


INSTANCE = "(core instance (instantiate $m))"


def made_of(module: str, memory: str = "(memory 1)", instances: str = INSTANCE) -> bytes:
    """A component with one core module, instantiated."""
    return bytes(wat2wasm(f"(component (core module $m {module} {memory}) {instances})"))


class TestTheImage:
    def test_its_facts_hold(self, component: bytes) -> None:
        assert problem_of(component) == ""
        assert ensure_image().remade == ""

    def test_every_instruction_is_decoded(self, component: bytes) -> None:
        """Most of its functions move the stack pointer, and the interpreter has thousands of functions."""
        modules = [read_module(component, start, end) for start, end in core_modules(component)]
        assert max(len(module.bodies) for module in modules) > 8000
        setters = [functions for module in modules for functions in module.setters.values()]
        assert max(len(functions) for functions in setters) > 3000

    def test_its_globals_are_known(self, component: bytes) -> None:
        many, few = globals_of(component)
        assert (len(many) > 400, len(few)) == (True, 3)

    @pytest.mark.parametrize("patch", [b"\x26\x00", b"\xfc\x0d", b"\x08\x00", b"\x24\x01"])
    def test_one_that_has_one_other_instruction_is_not_reset(self, component: bytes, patch: bytes) -> None:
        """The first instruction of the largest function, overwritten."""
        bodies = [body for span in core_modules(component) for body in read_module(component, *span).bodies]
        at, _ = max(bodies, key=lambda body: body[1] - body[0])
        assert problem_of(component[:at] + patch + component[at + len(patch) :]) != ""


class TestBrokenFacts:
    def test_nothing_but_memory(self) -> None:
        code = "i32.const 0 i32.const 1 i32.store i32.const 1 memory.grow drop"
        assert problem_of(made_of(f"(func {code}) (func $b (local i64 f32)) (func call $b)")) == ""

    @each(
        "module",
        [
            "(table 1 funcref) (func i32.const 0 ref.null func table.set)",
            "(table 1 funcref) (func ref.null func i32.const 1 table.grow drop)",
            "(table 1 funcref) (func i32.const 0 ref.null func i32.const 1 table.fill)",
            "(table 1 funcref) (func i32.const 0 i32.const 0 i32.const 0 table.copy)",
            "(table 1 funcref) (elem func) (func i32.const 0 i32.const 0 i32.const 0 table.init 0)",
            "(table 1 funcref) (elem func) (func elem.drop 0)",
            '(data "x") (func data.drop 0)',
            '(data "x") (func i32.const 0 i32.const 0 i32.const 0 memory.init 0)',
            "(tag) (func)",
            '(global (mut i32) (i32.const 0)) (func (export "f") i32.const 1 global.set 0)',
            "(global (mut i32) (i32.const 0)) (func $f i32.const 1 global.set 0) (func call $f)",
            "(global (mut i32) (i32.const 0)) (table 1 funcref) (elem (i32.const 0) func $f) "
            "(func $f i32.const 1 global.set 0)",
            "(global (mut i32) (i32.const 0)) (start $f) (func $f i32.const 1 global.set 0)",
            '(import "env" "g" (global (mut i32))) (func (export "f") i32.const 1 global.set 0)',
            "(func v128.const i32x4 0 0 0 0 drop)",
        ],
    )
    def test_one_broken_fact(self, module: str) -> None:
        assert problem_of(made_of(module)) != ""

    def test_what_nothing_calls_may_set_a_global(self) -> None:
        dead = "(global (mut i32) (i32.const 0)) (func i32.const 1 global.set 0)"
        assert problem_of(made_of(dead)) == ""

    def test_the_stack_pointer_may_move(self) -> None:
        stack = '(import "env" "__stack_pointer" (global (mut i32))) (func (export "f") i32.const 1 global.set 0)'
        assert problem_of(made_of(stack)) == ""

    @pytest.mark.parametrize("memory", ["", "(memory 1) (memory 1)"])
    def test_no_memory_or_two(self, memory: str) -> None:
        assert "memories" in problem_of(made_of("(func)", memory))

    @pytest.mark.parametrize("instances", ["", INSTANCE + INSTANCE])
    def test_a_module_that_is_instantiated_twice_or_never(self, instances: str) -> None:
        assert "memories" in problem_of(made_of("(func)", instances=instances))

    def test_an_adapter_that_has_not_started(self, component: bytes) -> None:
        """Its globals are found in the image, and set to what they are before it starts."""
        (adapter,) = (
            span for span in core_modules(component) if "reset_adapter_state" in read_module(component, *span).exported
        )
        start, end = adapter
        started = b"\x7f\x01\x41\x00\x0b\x7f\x01\x41\x02\x0b"
        at = component.index(started, start, end)
        broken = component[:at] + started.replace(b"\x41\x02", b"\x41\x00") + component[at + len(started) :]
        assert "of its own is set" in problem_of(broken)

    def test_a_component_that_makes_handles(self) -> None:
        text = "(component (core module (memory 1)) (type $t (resource (rep i32))) (core func (canon resource.new $t)))"
        assert "handles" in problem_of(bytes(wat2wasm(text)))

    @pytest.mark.parametrize("size", [9, 20, 40, 50])
    def test_one_that_is_cut_off(self, size: int) -> None:
        whole = made_of("(func i32.const 1 drop) (func i32.const 1 drop) (func i32.const 2 drop)")
        assert problem_of(whole) == ""
        assert problem_of(whole[:size]) != ""
