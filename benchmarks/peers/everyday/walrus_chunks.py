data = "The rain in Spain stays mainly in the plain"
chunks = []
rest = data
while chunk := rest[:10]:
    chunks.append(chunk)
    rest = rest[10:]
long_words = [size for word in data.split() if (size := len(word)) > 4]
total = sum(x * y for x in range(5) for y in range(x) if (x + y) % 2)
nested = {outer: [inner for inner in range(outer)] for outer in range(4)}
first, *middle, last = chunks
result = [chunks, long_words, total, nested[3], first, len(middle), last, {len(c) for c in chunks} == {10, 3}]
