# expect: error
# kind: OSError
with open("big.bin", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
