# expect: [[2, 3, 5, 7, 11, 13, 17, 19, 23, 29], [[2, 3, 5, 7], [11, 13, 17, 19], [23, 29]], [10.0, 15.0, 30.0], 129]
import itertools


def numbers():
    n = 0
    while True:
        n += 1
        yield n


def keep(predicate, source):
    yield from (item for item in source if predicate(item))


def batched(source, size):
    source = iter(source)
    while batch := list(itertools.islice(source, size)):
        yield batch


def running_average():
    total = count = 0
    average = None
    while True:
        value = yield average
        total += value
        count += 1
        average = total / count


primes = keep(lambda n: n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)), numbers())
first = list(itertools.islice(primes, 10))
averager = running_average()
next(averager)
averages = [averager.send(x) for x in (10, 20, 60)]
averager.close()
[first, list(batched(first, 4)), averages, list(itertools.accumulate(first))[-1]]
