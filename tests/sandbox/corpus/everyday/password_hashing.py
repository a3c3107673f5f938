# expect: ["55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc", true, false, "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a"]
import hashlib
import hmac
import secrets


def hash_password(password, salt=None, rounds=1000):
    salt = salt or secrets.token_bytes(16)
    return salt, hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)


def verify(password, salt, stored):
    return hmac.compare_digest(hash_password(password, salt)[1], stored)


salt, stored = hash_password("hunter2")
known = hashlib.pbkdf2_hmac("sha256", b"passwd", b"salt", 1, 64).hex()[:64]
[known, verify("hunter2", salt, stored), verify("hunter3", salt, stored), hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 4096).hex()]
