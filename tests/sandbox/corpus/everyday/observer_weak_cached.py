# expect: [["b=5", "a=5"], ["a=6"], ["b"], true, [6, 6, 6], 2]
import weakref
from functools import cached_property


class Observable:
    def __init__(self):
        self._observers = weakref.WeakKeyDictionary()

    def subscribe(self, observer, priority=0):
        self._observers[observer] = priority

    def notify(self, *args):
        ordered = sorted(self._observers.items(), key=lambda pair: pair[1])
        return [observer.update(*args) for observer, _ in ordered]


class Display:
    def __init__(self, name):
        self.name = name

    def update(self, value):
        return f"{self.name}={value}"

    def __del__(self):
        removed.append(self.name)


class Report:
    computed = 0

    def __init__(self, values):
        self.values = values

    @cached_property
    def total(self):
        Report.computed += 1
        return sum(self.values)


removed = []
source, a, b = Observable(), Display("a"), Display("b")
source.subscribe(a, 2)
source.subscribe(b, 1)
first = source.notify(5)
del b
second = source.notify(6)
ref = weakref.ref(a)
report = Report([1, 2, 3])
totals = [report.total, report.total]
del report.total
totals.append(report.total)
[first, second, removed, ref() is a, totals, Report.computed]
