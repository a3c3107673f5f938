from collections import Counter

text = """It was the best of times, it was the worst of times, it was the age of wisdom,
it was the age of foolishness, it was the epoch of belief."""
words = [word.strip(",.").lower() for word in text.split()]
result = Counter(words).most_common(4)
