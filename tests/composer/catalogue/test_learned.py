"""A learned schema says what was seen, and refuses nothing of it."""

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.composer.catalogue.learned import MANY_KEYS, MAX_DEPTH, MAX_KEYS, learn
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.stubs import stub
from tests.support.rows import each

keys = st.sampled_from(["id", "name", "items", "$ref", "type", "properties"]) | st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=6), max_leaves=25
)
maps = st.dictionaries(
    st.text(max_size=4), scalars | st.dictionaries(keys, scalars, max_size=3), min_size=20, max_size=80
)


def valid(value: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def count(schema: Any) -> int:
    """How many schemas are in it, itself included."""
    within = [
        *schema.get("properties", {}).values(),
        *(schema[key] for key in ("items", "additionalProperties") if key in schema),
    ]
    return 1 + sum(map(count, within))


@given(st.lists(values | maps, max_size=6), st.integers(0, 30) | st.just(200))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_all_that_was_seen_is_valid(seen: list[Any], most: int) -> None:
    schema = learn(seen, most)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(valid(value, schema) for value in seen)
    assert count(schema) <= max(most, 1)


@given(st.lists(values, max_size=4))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_does_not_change_what_it_sees_and_makes_a_stub(seen: list[Any]) -> None:
    before = repr(seen)
    schema = learn(seen)
    assert repr(seen) == before
    assert "async def get(self) -> " in stub(ToolSpec("a.get", "", {}, schema, learned=True))


@each(
    ("seen", "schema"),
    [
        ([], {}),
        ([None], {"type": "null"}),
        ([1, 2], {"type": "integer"}),
        ([1, 2.5], {"type": "number"}),
        ([True, 1], {"type": ["integer", "boolean"]}),
        (["open", "open", "closed"], {"type": "string"}),
        (["x", None], {"type": ["string", "null"]}),
        ([[]], {"type": "array"}),
        ([[1], ["x"], []], {"type": "array", "items": {"type": ["string", "integer"]}}),
        ([{}], {"type": "object"}),
        (
            [{"id": 1, "note": None}, {"id": 2}],
            {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "null"}}, "required": ["id"]},
        ),
        (
            [[{"a": 1}, {"a": 2.5, "b": "x"}], [{"a": None}]],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"a": {"type": ["number", "null"]}, "b": {"type": "string"}},
                    "required": ["a"],
                },
            },
        ),
        ([(1, 2)], {}),
        ([{1: 2}], {}),
        ([{"a": object()}], {"type": "object", "properties": {"a": {}}, "required": ["a"]}),
    ],
)
def test_what_is_learned(seen: list[Any], schema: dict[str, Any]) -> None:
    assert learn(seen) == schema


def test_many_keys_that_come_and_go_are_data() -> None:
    seen = [{f"user {n}": {"id": n} for n in range(start, start + 30)} for start in (0, 30)]
    inner = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    assert learn(seen) == {"type": "object", "additionalProperties": inner}


def test_many_keys_that_are_always_there_are_properties() -> None:
    seen = [{f"field_{n}": n for n in range(2 * MANY_KEYS)}] * 3
    assert len(learn(seen)["required"]) == 2 * MANY_KEYS


def test_too_many_keys_are_data_even_in_one_value() -> None:
    seen = [{f"id {n}": n if n % 2 else str(n) for n in range(MAX_KEYS + 1)}]
    assert learn(seen) == {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}


def test_deep_values_end_somewhere() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    schema = learn([value])
    assert str(schema).count("items") == MAX_DEPTH


def test_where_there_is_too_much_the_details_go_first() -> None:
    seen = {"first": {"deep": {"deeper": 1}}, "second": 2}
    assert learn([seen], 4) == {
        "type": "object",
        "properties": {
            "first": {"type": "object", "properties": {"deep": {"type": "object"}}, "required": ["deep"]},
            "second": {"type": "integer"},
        },
        "required": ["first", "second"],
    }
