# expect: error
# kind: RecursionError
import sys

sys.setrecursionlimit(10**9)


def down(n):
    return [down(n + 1)]


down(0)
