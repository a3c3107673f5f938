# expect: memory_limit
# limits: {"memory_mb": 64}
from itertools import count

(number for number in count())
