import functools


def retry(times, exceptions=(Exception,)):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return function(*args, **kwargs)
                except exceptions as error:
                    log.append(f"{function.__name__} attempt {attempt}: {error}")
                    if attempt == times:
                        raise

        return wrapper

    return decorate


log = []
calls = {"count": 0}


@retry(times=3, exceptions=(ValueError,))
def flaky(limit):
    calls["count"] += 1
    if calls["count"] < limit:
        raise ValueError(f"only {calls['count']}")
    return "done"


first = flaky(3)
calls["count"] = -10
try:
    flaky(3)
except ValueError as error:
    second = str(error)
result = [first, second, log, flaky.__name__]
