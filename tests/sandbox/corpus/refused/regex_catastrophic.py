# expect: cpu_limit
# limits: {"cpu_s": 0.4}
import re

re.match(r"^(a+)+$", "a" * 40 + "!")
