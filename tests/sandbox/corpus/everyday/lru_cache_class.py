# expect: ["LRUCache(['a', 'c'])", false, -1, 1, 1, 2]
from collections import OrderedDict


class LRUCache:
    """A fixed-size mapping that forgets what was used least recently."""

    def __init__(self, capacity: int = 3):
        self._capacity = capacity
        self._cache = OrderedDict()
        self._hits = self._misses = 0

    def __getitem__(self, key):
        if key in self._cache:
            self._cache.move_to_end(key)
            self._hits += 1
            return self._cache[key]
        self._misses += 1
        raise KeyError(key)

    def __setitem__(self, key, value):
        self._cache[key] = value
        self._cache.move_to_end(key)
        if len(self._cache) > self._capacity:
            self._cache.popitem(last=False)

    def __len__(self):
        return len(self._cache)

    def __contains__(self, key):
        return key in self._cache

    def __repr__(self):
        return f"{type(self).__name__}({list(self._cache)!r})"

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default


cache = LRUCache(2)
cache["a"], cache["b"] = 1, 2
cache.get("a")
cache["c"] = 3
[repr(cache), "b" in cache, cache.get("b", -1), cache._hits, cache._misses, len(cache)]
