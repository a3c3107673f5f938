# expect: [[21.5, 19.0], 20.25, [[1, 2], [2, 1]], [[1, 4], [2, 5], [3, 6]], ["abc", "def", "g"], "sixteen", true]
import re

LINES = ["temp=21.5", "noise", "temp=19.0", "humidity=40", "temp=bad"]


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


readings = [value for line in LINES if (m := re.match(r"temp=(.+)", line)) and (value := number(m[1])) is not None]
grid = {(r, c): r * c for r in range(3) for c in range(3) if r != c}
inverse = {}
for key, value in grid.items():
    inverse.setdefault(value, set()).add(key)
transposed = [[row[i] for row in [[1, 2, 3], [4, 5, 6]]] for i in range(3)]
if (n := len(readings)) > 1:
    average = sum(readings) / n
chunks = iter("abcdefg")
taken = []
while (chunk := "".join(c for _, c in zip(range(3), chunks))):
    taken.append(chunk)
any_long = any(len(word := w) > 5 for w in ["one", "sixteen", "two"])
[readings, average, sorted(inverse[2]), transposed, taken, word if any_long else None, {c for c in "hello" if c in "aeiou"} == {"e", "o"}]
