# expect: cpu_limit
# limits: {"cpu_s": 0.6}
print(10**10**10)
