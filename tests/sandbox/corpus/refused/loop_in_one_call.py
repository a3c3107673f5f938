# expect: cpu_limit
# limits: {"cpu_s": 0.15}
from itertools import count

sum(count(1))
