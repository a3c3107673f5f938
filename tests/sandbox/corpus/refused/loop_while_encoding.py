# expect: cpu_limit
# limits: {"cpu_s": 0.4}
class Endless(dict):
    def items(self):
        while True:
            pass


Endless(a=1)
