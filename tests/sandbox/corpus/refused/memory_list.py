# expect: memory_limit
# limits: {"memory_mb": 64}
hoard = []
while True:
    hoard.append([0] * 10_000)
