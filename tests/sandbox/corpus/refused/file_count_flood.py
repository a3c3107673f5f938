# expect: error
# kind: OSError
for number in range(5000):
    open(f"file-{number}.txt", "w").close()
