# expect: ["<html><body>BODY</body></html><a><b>closed</b></a>", "ZeroDivisionError", true, ["A", "B"]]
import contextlib
import time


class Timer:
    def __enter__(self):
        self._start = time.perf_counter()
        return self

    def __exit__(self, exc_type, exc, tb):
        self.elapsed = time.perf_counter() - self._start
        self.failed = exc_type.__name__ if exc_type else None
        return exc_type is ZeroDivisionError


@contextlib.contextmanager
def tag(name, out):
    out.append(f"<{name}>")
    try:
        yield name.upper()
    finally:
        out.append(f"</{name}>")


out = []
with tag("html", out), tag("body", out) as body:
    out.append(body)

with Timer() as timer:
    1 / 0

with contextlib.suppress(KeyError):
    {}["missing"]

with contextlib.ExitStack() as stack:
    names = [stack.enter_context(tag(name, out)) for name in ("a", "b")]
    stack.callback(out.append, "closed")

["".join(out), timer.failed, timer.elapsed >= 0, names]
