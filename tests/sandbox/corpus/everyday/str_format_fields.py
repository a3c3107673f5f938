# expect: [["007 ann   |  90", "012 bob   |   8"], "ann: 90 Row", "1 n/a", 40, ["a", "b.c_d", "0[x]"]]
"""Format strings with attribute and item fields, as in reports and log lines."""
from dataclasses import dataclass
from string import Formatter


@dataclass
class Row:
    first_name: str
    _id: int
    scores: dict

    def line(self):
        return "{0._id:03d} {0.first_name:<6}|{0.scores[math]:>4}".format(self)


class Defaults(Formatter):
    def get_value(self, key, args, kwargs):
        return kwargs.get(key, "n/a") if isinstance(key, str) else super().get_value(key, args, kwargs)


rows = [Row("ann", 7, {"math": 90}), Row("bob", 12, {"math": 8})]
pattern = "{row.first_name}: {row.scores[math]} {row.__class__.__name__}"
path = "C:\\{user_name}\\__init__.py {not.a_field}"
names = [name for _, name, *_ in Formatter().parse("{a} {b.c_d} {0[x]}") if name]
[[row.line() for row in rows], pattern.format(row=rows[0]), Defaults().format("{a} {b}", a=1), len(path), names]
