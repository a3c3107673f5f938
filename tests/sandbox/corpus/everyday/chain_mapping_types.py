# expect: ["text/html", true, {"color": "red", "size": 1}, "I <what>", true, "full", [9, 7, 8], "namespace(a=6, b=2)"]
from collections import ChainMap, UserDict, UserList, deque
from types import MappingProxyType, SimpleNamespace


class CaseInsensitive(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __getitem__(self, key):
        return super().__getitem__(key.lower())

    def __contains__(self, key):
        return key.lower() in self.data


class Missing(dict):
    def __missing__(self, key):
        self[key] = value = f"<{key}>"
        return value


class Limited(UserList):
    def append(self, item):
        if len(self) >= 2:
            raise OverflowError("full")
        super().append(item)


headers = CaseInsensitive({"Content-Type": "text/html"})
headers["X-Id"] = 1
settings = ChainMap({"color": "red"}, {"color": "blue", "size": 1})
view = MappingProxyType({"k": 1})
try:
    view["k"] = 2
except TypeError:
    readonly = True
limited = Limited([1, 2])
try:
    limited.append(3)
except OverflowError as error:
    full = str(error)
recent = deque(range(10), maxlen=3)
recent.rotate(1)
space = SimpleNamespace(a=1, b=2)
space.a += 5
[headers["CONTENT-TYPE"], "x-id" in headers, dict(settings), "{who} {what}".format_map(Missing(who="I")), readonly, full, list(recent), repr(space)]
