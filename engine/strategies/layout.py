"""Where the tasks of a graph stand in a picture: one column for each layer, with few lines that cross."""

from __future__ import annotations

from collections.abc import Sequence

PASSES = 4  # over all columns; more changes little


def layers(needs: Sequence[Sequence[int]]) -> list[int]:
    """How many tasks come before each, at the most, one after the other. The graph has no circles."""
    found: dict[int, int] = {}
    for start in range(len(needs)):
        todo = [start]
        while todo:
            at = todo[-1]
            missing = [need for need in needs[at] if need not in found]
            if missing and at not in found:
                todo += missing
                continue
            todo.pop()
            found[at] = 1 + max((found[need] for need in needs[at]), default=-1)
    return [found[at] for at in range(len(needs))]


def places(needs: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The column and row of each task. Within a column, tasks stand near what they are joined to."""
    column = layers(needs)
    columns: list[list[int]] = [[] for _ in range(max(column, default=-1) + 1)]
    followers: list[list[int]] = [[] for _ in needs]
    for task, at in enumerate(column):
        columns[at].append(task)
        for need in needs[task]:
            followers[need].append(task)
    row = {task: at for tasks in columns for at, task in enumerate(tasks)}
    for number in range(PASSES):
        forth = number % 2 == 0
        for tasks in columns if forth else reversed(columns):
            beside = needs if forth else followers
            middle = {
                task: sum(row[one] for one in beside[task]) / len(beside[task]) if beside[task] else float(row[task])
                for task in tasks
            }
            tasks.sort(key=lambda task: (middle[task], row[task]))
            row.update({task: at for at, task in enumerate(tasks)})
    return [(column[task], row[task]) for task in range(len(needs))]


def critical_path(needs: Sequence[Sequence[int]], weights: Sequence[float]) -> list[int]:
    """The chain of tasks that takes the longest, from its first to its last."""
    longest: list[float] = [0.0] * len(needs)
    before: list[int | None] = [None] * len(needs)
    for task in sorted(range(len(needs)), key=layers(needs).__getitem__):
        slowest = max(needs[task], key=lambda need: longest[need], default=None)
        before[task] = slowest
        longest[task] = weights[task] + (0.0 if slowest is None else longest[slowest])
    at: int | None = max(range(len(needs)), key=lambda task: longest[task], default=None)
    path = []
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1]
