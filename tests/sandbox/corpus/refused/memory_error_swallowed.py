# expect: cpu_limit
# limits: {"cpu_s": 0.4, "memory_mb": 64}
hoard = []
while True:
    try:
        hoard.append(bytearray(1 << 20))
    except MemoryError:
        pass
