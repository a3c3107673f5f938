from collections import deque

recent = deque(maxlen=3)
for page in ["home", "cart", "pay", "done"]:
    recent.append(page)
ring = deque(range(1, 8))
order = []
while ring:
    ring.rotate(-2)
    order.append(ring.popleft())
recent.appendleft("again")
result = [list(recent), order, recent.index("cart") if "cart" in recent else -1]
