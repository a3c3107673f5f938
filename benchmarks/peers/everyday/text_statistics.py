text = "The quick brown fox.\nJumps over the lazy dog!\n\nThe end?"
lines = text.splitlines()
words = text.replace("\n", " ").split()
letters = [character for character in text.lower() if character.isalpha()]
vowels = sum(character in "aeiou" for character in letters)
result = {
    "lines": len(lines),
    "blank": sum(not line for line in lines),
    "words": len(words),
    "longest": max((word.strip(".!?") for word in words), key=len),
    "vowels": vowels,
    "titles": [line.title() for line in lines if line],
    "missing": "".join(sorted(set("abcdefghijklmnopqrstuvwxyz") - set(letters))),
    "swapped": lines[0].swapcase().center(26, "*"),
}
