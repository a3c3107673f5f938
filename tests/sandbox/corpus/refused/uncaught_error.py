# expect: error
# line: 5
# kind: ZeroDivisionError
def average(numbers):
    return sum(numbers) / len(numbers)


average([1, 2, 3])
average([])
