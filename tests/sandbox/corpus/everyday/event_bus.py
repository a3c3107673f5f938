# expect: [["welcome ann", "ann from unknown"], true, [["a", "b"]], [], 1, true]
from collections import defaultdict
from collections.abc import Callable
from weakref import WeakSet


class EventBus:
    _instance = None

    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._handlers = defaultdict(list)
        return cls._instance

    def on(self, event: str) -> Callable:
        def register(handler):
            self._handlers[event].append(handler)
            return handler

        return register

    def emit(self, event, /, **data):
        return [handler(**data) for handler in self._handlers[event]]


bus = EventBus()


@bus.on("login")
def greet(user, **_):
    return f"welcome {user}"


@bus.on("login")
def audit(user, ip="unknown"):
    return f"{user} from {ip}"


class Listener:
    def __call__(self, **data):
        return sorted(data)


listener = Listener()
bus.on("logout")(listener)
alive = WeakSet([listener])
[bus.emit("login", user="ann"), EventBus() is bus, bus.emit("logout", b=1, a=2), bus.emit("nothing"), len(alive), callable(listener)]
