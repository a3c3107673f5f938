# expect: [{"0": 0, "1": 1, "2": 4, "4": 16, "5": 25}, {"3": "three is bad"}, 10, [0, 1, 2, 3, 4], [1, 2]]
import concurrent.futures
import queue
import threading
import time


def work(n):
    time.sleep(0.001)
    if n == 3:
        raise ValueError("three is bad")
    return n * n


results, errors = {}, {}
with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
    futures = {pool.submit(work, n): n for n in range(6)}
    for future in concurrent.futures.as_completed(futures):
        n = futures[future]
        try:
            results[n] = future.result()
        except ValueError as error:
            errors[n] = str(error)

lock, inbox, total = threading.Lock(), queue.Queue(), 0


def add(amount):
    global total
    with lock:
        total += amount
        inbox.put(amount)


threads = [threading.Thread(target=add, args=(i,)) for i in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
[dict(sorted(results.items())), errors, total, sorted(inbox.get() for _ in range(inbox.qsize())), list(concurrent.futures.ThreadPoolExecutor().map(abs, [-1, 2]))]
