# expect: [true, true, 1, true, true, true, true]
import random


class Walker:
    def __init__(self, seed):
        self._rng = random.Random(seed)
        self.position = 0
        self.trail = [0]

    def step(self):
        self.position += self._rng.choice((-1, 1))
        self.trail.append(self.position)
        return self

    def walk(self, steps):
        for _ in range(steps):
            self.step()
        return self


def estimate_pi(samples, rng):
    inside = sum(rng.random() ** 2 + rng.random() ** 2 <= 1 for _ in range(samples))
    return 4 * inside / samples


walkers = [Walker(seed).walk(100) for seed in range(20)]
pi = estimate_pi(5000, random.Random(1))
deck = list(range(10))
random.shuffle(deck)
[
    all(len(w.trail) == 101 for w in walkers),
    all(abs(a - b) == 1 for w in walkers for a, b in zip(w.trail, w.trail[1:])),
    len({w.position % 2 for w in walkers}),
    3.0 < pi < 3.3,
    sorted(deck) == list(range(10)),
    Walker(7).walk(30).trail == Walker(7).walk(30).trail,
    0 <= random.random() < 1 <= random.randint(1, 6) <= 6,
]
