# expect: cpu_limit
# limits: {"cpu_s": 0.4}
n = 0
while True:
    n += 1
