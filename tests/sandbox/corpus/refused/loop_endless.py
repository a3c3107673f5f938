# expect: cpu_limit
# limits: {"cpu_s": 0.15}
n = 0
while True:
    n += 1
