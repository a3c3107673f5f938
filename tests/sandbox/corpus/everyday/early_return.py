# expect: "found 9 at 2"
"""A return at the top level ends the run."""
numbers = [4, 7, 9, 12]

for index, number in enumerate(numbers):
    try:
        root = number**0.5
        if number > 4 and root == int(root):
            return f"found {number} at {index}"
    finally:
        seen = index
else:
    result = "nothing"
result
