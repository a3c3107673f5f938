# expect: {"ok": ["ann", "bob"], "bad": ["eve"], "alias": "Result", "params": ["T", "E"], "total": 60}
from dataclasses import dataclass
from typing import Literal

type Json = None | bool | int | float | str | list[Json] | dict[str, Json]
type Result[T, E] = Ok[T] | Err[E]
Mode = Literal["strict", "lenient"]


@dataclass
class Ok[T]:
    value: T


@dataclass
class Err[E]:
    error: E


def check(record: dict[str, Json], mode: Mode = "strict") -> Result[int, str]:
    match record:
        case {"name": str(), "age": int(age)} if age >= 0:
            return Ok(age)
        case {"name": str(name)}:
            return Err(name)
        case _:
            return Err("?")


records = [{"name": "ann", "age": 20}, {"name": "eve", "age": -1}, {"name": "bob", "age": 40}]
outcomes = [(record["name"], check(record)) for record in records]
{
    "ok": [name for name, outcome in outcomes if isinstance(outcome, Ok)],
    "bad": [outcome.error for _, outcome in outcomes if isinstance(outcome, Err)],
    "alias": Result.__name__,
    "params": [str(p) for p in Result.__type_params__],
    "total": sum(o.value for _, o in outcomes if isinstance(o, Ok)),
}
