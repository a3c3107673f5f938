# expect: refused
# line: 4
# kind: PolicyRefusal
from multiprocessing import Pool

with Pool(4) as pool:
    print(pool.map(abs, [-1, -2]))
