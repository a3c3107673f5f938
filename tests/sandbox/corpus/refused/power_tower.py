# expect: cpu_limit
# limits: {"cpu_s": 0.15}
print(10**10**10)
