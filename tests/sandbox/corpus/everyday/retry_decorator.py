# expect: ["payload from /data", "fetch", "Fetch something, maybe.", "fetch", 1]
# stdout: "fetch: attempt 1 failed: reset\nfetch: attempt 2 failed: slow\n"
import functools
import time


def retry(times=3, exceptions=(Exception,), delay=0.001):
    def decorate(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            last = None
            for attempt in range(1, times + 1):
                try:
                    return func(*args, **kwargs)
                except exceptions as error:
                    last = error
                    print(f"{func.__name__}: attempt {attempt} failed: {error}")
                    time.sleep(delay * attempt)
            raise last

        wrapper.calls = 0
        return wrapper

    return decorate


attempts = iter([ConnectionError("reset"), TimeoutError("slow"), "payload"])


@retry(times=4, exceptions=(OSError,))
def fetch(url, *, verbose=False):
    """Fetch something, maybe."""
    outcome = next(attempts)
    if isinstance(outcome, Exception):
        raise outcome
    return f"{outcome} from {url}"


fetch.calls += 1
[fetch("/data"), fetch.__name__, fetch.__doc__, fetch.__wrapped__.__name__, fetch.calls]
