from contextlib import ExitStack, contextmanager, suppress

events = []


@contextmanager
def opened(name):
    events.append(f"open {name}")
    try:
        yield name.upper()
    finally:
        events.append(f"close {name}")


with ExitStack() as stack:
    names = [stack.enter_context(opened(name)) for name in ("a", "b")]
    stack.callback(events.append, "callback")
with suppress(ZeroDivisionError), opened("c"):
    1 / 0
result = [names, events]
