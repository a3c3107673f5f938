# expect: [4, ["code", "plan", "sleep"], [9, 8], [9, 8], [0, 1, 2, 4, 4, 7, 8, 9]]
import heapq
import itertools
from dataclasses import dataclass, field
from typing import Any


@dataclass(order=True)
class Task:
    priority: int
    order: int = field(default_factory=itertools.count().__next__)
    action: Any = field(compare=False, default=None)


class Scheduler:
    def __init__(self):
        self._heap = []
        self._cancelled = set()

    def add(self, priority, action):
        task = Task(priority, action=action)
        heapq.heappush(self._heap, task)
        return task.order

    def cancel(self, order):
        self._cancelled.add(order)

    def __iter__(self):
        return self

    def __next__(self):
        while self._heap:
            task = heapq.heappop(self._heap)
            if task.order not in self._cancelled:
                return task.action
        raise StopIteration

    def __len__(self):
        return len(self._heap)


scheduler = Scheduler()
ids = {name: scheduler.add(priority, name) for name, priority in [("eat", 2), ("code", 1), ("sleep", 3), ("plan", 1)]}
scheduler.cancel(ids["eat"])
size = len(scheduler)
done = list(scheduler)
merged = list(heapq.merge([1, 4, 7], [2, 4, 8], [0, 9]))
[size, done, heapq.nlargest(2, merged), heapq.nsmallest(2, merged, key=lambda n: -n), merged]
