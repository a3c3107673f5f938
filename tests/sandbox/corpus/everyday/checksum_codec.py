# expect: [true, true, "wrong key", "900150983cd24fb0d6963f7d28e17f72", "11db9aa9c73a", "34741aee", "6869", "AAECAwQ="]
import base64
import binascii
import hashlib
import hmac
import zlib

MESSAGE = ("the same words again and again, " * 20).encode()


def pack(data, key):
    body = zlib.compress(data, level=9)
    tag = hmac.new(key, body, hashlib.sha256).digest()[:8]
    return base64.urlsafe_b64encode(tag + body).decode()


def unpack(text, key):
    raw = base64.urlsafe_b64decode(text)
    tag, body = raw[:8], raw[8:]
    if not hmac.compare_digest(tag, hmac.new(key, body, hashlib.sha256).digest()[:8]):
        raise ValueError("wrong key")
    return zlib.decompress(body)


packed = pack(MESSAGE, b"secret")
try:
    unpack(packed, b"other")
except ValueError as error:
    problem = str(error)
[
    unpack(packed, b"secret") == MESSAGE,
    len(packed) < len(MESSAGE) // 4,
    problem,
    hashlib.md5(b"abc").hexdigest(),
    hashlib.sha256(MESSAGE).hexdigest()[:12],
    f"{zlib.crc32(MESSAGE):08x}",
    binascii.hexlify(b"hi").decode(),
    base64.b64encode(bytes(range(5))).decode(),
]
