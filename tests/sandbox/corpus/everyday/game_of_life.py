# expect: true
# stdout: "······\n······\n···█··\n····█·\n··███·\n······\n"
from collections import Counter

GLIDER = {(1, 0), (2, 1), (0, 2), (1, 2), (2, 2)}


def step(cells):
    neighbours = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0))
    return {cell for cell, count in neighbours.items() if count == 3 or (count == 2 and cell in cells)}


def show(cells, size=6):
    return "\n".join("".join("█" if (x, y) in cells else "·" for x in range(size)) for y in range(size))


cells = GLIDER
for generation in range(8):
    cells = step(cells)
print(show(cells))
cells == {(x + 2, y + 2) for x, y in GLIDER}
