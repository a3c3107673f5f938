# expect: [[0, 3, 8, 1], ["000", "001", "011", "010", "110"], 180, ["DATA", 513, 7, "0xdeadbeef", 12, 12], 6, "Jello", "04d2", 1, 8]
import struct
from array import array

HEADER = struct.Struct(">4sHBxI")


def popcount(n):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


def gray(n):
    return n ^ (n >> 1)


def rotate_left(value, amount, bits=8):
    amount %= bits
    return ((value << amount) | (value >> (bits - amount))) & ((1 << bits) - 1)


packet = HEADER.pack(b"DATA", 513, 7, 0xDEADBEEF)
magic, version, kind, checksum = HEADER.unpack(packet)
numbers = array("i", [1, -2, 3])
numbers.append(4)
buffer = bytearray(b"hello")
memoryview(buffer)[0:1] = b"J"
[
    [popcount(n) for n in (0, 7, 255, 1024)],
    [f"{gray(n):03b}" for n in range(5)],
    rotate_left(0b10010110, 3),
    [magic.decode(), version, kind, hex(checksum), len(packet), HEADER.size],
    sum(numbers),
    buffer.decode(),
    (1234).to_bytes(2, "big").hex(),
    int.from_bytes(b"\x01\x00", "little"),
    (255).bit_length(),
]
