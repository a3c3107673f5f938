# expect: [8, 1.75, [0.0, 0.75, 1.5], true, 4, 1.75, true, "c", true]
import collections.abc
import contextlib
import random
import typing as t

Number = t.Union[int, float]


class Interval(collections.abc.Sequence):
    def __init__(self, start: Number, stop: Number, step: Number = 1):
        self.start, self.stop, self.step = start, stop, step

    def __len__(self) -> int:
        return max(0, int((self.stop - self.start) / self.step))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.start + index * self.step

    def __index__(self):
        return int(self.start)

    def __call__(self, *, shuffled=False):
        items = list(self)
        if shuffled:
            random.shuffle(items)
        return items


steps = Interval(0, 2, 0.25)
with contextlib.suppress(IndexError):
    steps[99]
[len(steps), steps[-1], steps[::3], 0.5 in steps, steps.index(1.0), list(reversed(steps))[0], sorted(steps(shuffled=True)) == steps(), "abcdef"[Interval(2, 3)], isinstance(steps, collections.abc.Iterable)]
