# expect: memory_limit
numbers = list(range(10**9))
