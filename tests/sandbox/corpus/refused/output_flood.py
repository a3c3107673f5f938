# expect: cpu_limit
# limits: {"cpu_s": 0.15}
while True:
    print("all work and no play " * 50)
