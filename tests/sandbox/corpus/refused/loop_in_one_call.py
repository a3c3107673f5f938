# expect: cpu_limit
# limits: {"cpu_s": 0.4}
from itertools import count

sum(count(1))
