# expect: cpu_limit
# limits: {"cpu_s": 0.5}
while True:
    print("all work and no play " * 50)
