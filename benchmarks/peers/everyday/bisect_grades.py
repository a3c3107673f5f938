import bisect

BOUNDS, GRADES = [60, 70, 80, 90], "FDCBA"
grades = {score: GRADES[bisect.bisect(BOUNDS, score)] for score in (33, 60, 79, 85, 99)}
waiting = [3, 8, 15]
bisect.insort(waiting, 10)
result = [grades, waiting, bisect.bisect_left(waiting, 8)]
