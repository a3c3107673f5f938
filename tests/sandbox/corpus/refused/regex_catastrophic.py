# expect: cpu_limit
# limits: {"cpu_s": 0.15}
import re

re.match(r"^(a+)+$", "a" * 40 + "!")
