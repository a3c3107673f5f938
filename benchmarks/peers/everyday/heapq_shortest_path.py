import heapq

ROADS = {"a": {"b": 7, "c": 3}, "b": {"d": 2}, "c": {"b": 1, "d": 8}, "d": {"e": 4}, "e": {}}


def shortest(start, goal):
    queue, seen = [(0, start, [start])], set()
    while queue:
        cost, place, path = heapq.heappop(queue)
        if place == goal:
            return cost, path
        if place in seen:
            continue
        seen.add(place)
        for following, distance in ROADS[place].items():
            heapq.heappush(queue, (cost + distance, following, [*path, following]))
    return None


result = [shortest("a", "e"), shortest("e", "a"), heapq.nsmallest(2, [5, 1, 4]), heapq.nlargest(2, ["aa", "b"], key=len)]
