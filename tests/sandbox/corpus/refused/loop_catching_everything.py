# expect: cpu_limit
# limits: {"cpu_s": 0.15}
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
