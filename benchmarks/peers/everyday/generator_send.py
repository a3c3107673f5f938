def averager():
    total, count, average = 0, 0, None
    while True:
        value = yield average
        if value is None:
            return [count, average]
        total += value
        count += 1
        average = total / count


def wrapper():
    outcome = yield from averager()
    closed.append(outcome)


closed = []
average = wrapper()
next(average)
answers = [average.send(value) for value in (10, 20, 60)]
try:
    average.send(None)
except StopIteration:
    closed.append("stopped")
result = [answers, closed]
