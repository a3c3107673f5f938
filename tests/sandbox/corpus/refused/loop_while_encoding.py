# expect: cpu_limit
# limits: {"cpu_s": 0.15}
class Endless(dict):
    def items(self):
        while True:
            pass


Endless(a=1)
