import threading
from concurrent.futures import ThreadPoolExecutor

lock = threading.Lock()
done = []


def work(number):
    with lock:
        done.append(number)
    return number * number


with ThreadPoolExecutor(max_workers=4) as pool:
    squares = list(pool.map(work, range(8)))
result = [squares, sorted(done)]
