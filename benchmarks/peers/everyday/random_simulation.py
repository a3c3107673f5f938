import random

generator = random.Random(42)
rolls = [generator.randint(1, 6) for _ in range(1000)]
deck = list(range(10))
generator.shuffle(deck)
walk, position = [0], 0
for _ in range(50):
    position += generator.choice((-1, 1))
    walk.append(position)
result = [sum(rolls), rolls.count(6), deck, generator.sample(range(100), 3), max(walk), round(generator.gauss(0, 1), 6)]
