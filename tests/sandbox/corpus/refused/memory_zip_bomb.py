# expect: memory_limit
# limits: {"memory_mb": 64}
import zlib

engine = zlib.compressobj(9)
bomb = b"".join(engine.compress(bytes(1 << 20)) for _ in range(80)) + engine.flush()
print(len(bomb))
zlib.decompress(bomb)
