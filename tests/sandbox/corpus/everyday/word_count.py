# expect: {"total": 25, "distinct": 16, "top": ["the", 6]}
# stdout: "the  ######    6\nfox  ###    3\ndog  ###    3\n"
"""Count the words of a text and print the most common ones."""
import re
from collections import Counter

TEXT = """
The quick brown fox jumps over the lazy dog. The dog sleeps;
the fox runs away. What does the fox say? Nothing the dog hears.
"""


def tokenize(text):
    return re.findall(r"[a-z']+", text.lower())


def report(counter, top=3):
    width = max(len(word) for word, _ in counter.most_common(top))
    for word, count in counter.most_common(top):
        print(f"{word:<{width}}  {'#' * count}  {count:>3}")


if __name__ == "__main__":
    words = Counter(tokenize(TEXT))
    report(words)

{"total": sum(words.values()), "distinct": len(words), "top": words.most_common(1)[0]}
