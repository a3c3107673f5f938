# expect: [true, [-4, 3, 9, 10, 27, 27, 38, 43, 82], ["the", "fox", "quick", "brown"], "FACCBA"]
import bisect


def quicksort(items):
    if len(items) <= 1:
        return list(items)
    pivot, *rest = items
    return quicksort([x for x in rest if x < pivot]) + [pivot] + quicksort([x for x in rest if x >= pivot])


def merge_sort(items, key=lambda x: x):
    if len(items) < 2:
        return items[:]
    middle = len(items) // 2
    left, right = merge_sort(items[:middle], key), merge_sort(items[middle:], key)
    merged = []
    while left and right:
        merged.append((left if key(left[0]) <= key(right[0]) else right).pop(0))
    return merged + left + right


def insertion_sort(items):
    items = items.copy()
    for i in range(1, len(items)):
        j = i
        while j and items[j - 1] > items[j]:
            items[j - 1], items[j] = items[j], items[j - 1]
            j -= 1
    return items


def grade(score, breakpoints=(60, 70, 80, 90), grades="FDCBA"):
    return grades[bisect.bisect(breakpoints, score)]


data = [38, 27, 43, 3, 9, 82, 10, -4, 27]
results = [quicksort(data), merge_sort(data), insertion_sort(data)]
words = merge_sort("the quick brown fox".split(), key=len)
[all(r == sorted(data) for r in results), results[0], words, "".join(grade(s) for s in (33, 99, 77, 70, 89, 90))]
