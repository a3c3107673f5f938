import base64
import binascii
import hashlib
import hmac
import zlib

message = "pay 10 to Ann".encode()
digest = hashlib.sha256(message).hexdigest()
signature = hmac.new(b"key", message, hashlib.sha1).hexdigest()
packed = zlib.compress(message * 20)
text = base64.urlsafe_b64encode(message).decode()
result = [
    digest[:16],
    signature[:16],
    zlib.decompress(packed) == message * 20,
    text,
    base64.b64decode("aGk=").decode(),
    zlib.crc32(message),
    binascii.hexlify(b"\x00\xff").decode(),
]
