# expect: cpu_limit
# limits: {"cpu_s": 0.15}
class Sticky:
    def __del__(self):
        while True:
            pass


Sticky()
print("gone")
