# expect: ["x=3", "  3.14|0x2a|1,234,567", "Ann's \"mail\"", "2024-03-05", "[a, b]", "50.0%", "{literal}", "'é' '\\xe9'", "00042", "1.2e+03", "a-b-c", "*mid**"]
import datetime

x = 3
pi = 3.14159
name = "Ann"
width, precision = 6, 2
day = datetime.date(2024, 3, 5)
items = ["a", "b"]


class Celsius(float):
    def __format__(self, spec):
        return f"{float(self):{spec}}°"


[
    f"{x=}",
    f"{pi:{width}.{precision}f}|{42:#x}|{1234567:,}",
    f"{name}'s \"mail\"",
    f"{day:%Y-%m-%d}",
    f"[{', '.join(f"{item}" for item in items)}]",
    f"{0.5:.1%}",
    f"{{literal}}",
    f"{'é'!r} {'é'!a}",
    f"{42:05d}",
    f"{1234:.1e}",
    f"{"-".join(["a", "b", "c"])}",
    f"{'mid':*^6}",
]
