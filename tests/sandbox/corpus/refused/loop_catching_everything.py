# expect: cpu_limit
# limits: {"cpu_s": 0.4}
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
