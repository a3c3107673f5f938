# expect: fuel_limit
# limits: {"fuel": 200000000}
total = 0
for i in range(10**9):
    total += i
