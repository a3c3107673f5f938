def numbers(text):
    for line in text.splitlines():
        yield from (int(part) for part in line.split())


def only(test, values):
    return (value for value in values if test(value))


def batches(values, size):
    batch = []
    for value in values:
        batch.append(value)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


source = "1 2 3\n4 5 6\n7 8 9 10"
even = only(lambda n: n % 2 == 0, numbers(source))
result = [list(batches(even, 2)), sum(numbers(source)), next(numbers("7 8")), list(numbers(""))]
