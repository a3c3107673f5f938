# expect: 12
# stdout: "#########\n#S**#***#\n#.#*#*#*#\n#.#***#E#\n#########\n"
from collections import deque

MAZE = """\
#########
#S..#...#
#.#.#.#.#
#.#...#E#
#########"""

grid = [list(line) for line in MAZE.splitlines()]
where = {cell: (r, c) for r, row in enumerate(grid) for c, cell in enumerate(row) if cell in "SE"}


def solve(grid, start, goal):
    queue, parent = deque([start]), {start: None}
    while queue:
        r, c = here = queue.popleft()
        if here == goal:
            break
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            step = r + dr, c + dc
            if grid[step[0]][step[1]] != "#" and step not in parent:
                parent[step] = here
                queue.append(step)
    while here is not None:
        yield here
        here = parent[here]


route = list(solve(grid, where["S"], where["E"]))
for r, c in route[1:-1]:
    grid[r][c] = "*"
print("\n".join(map("".join, grid)))
len(route) - 1
