# expect: {"distance": {"A": 0, "B": 7, "C": 9, "D": 20, "E": 20, "F": 11}, "path": ["A", "C", "F", "E"]}
import heapq
from math import inf

ROADS = {
    "A": {"B": 7, "C": 9, "F": 14},
    "B": {"A": 7, "C": 10, "D": 15},
    "C": {"A": 9, "B": 10, "D": 11, "F": 2},
    "D": {"B": 15, "C": 11, "E": 6},
    "E": {"D": 6, "F": 9},
    "F": {"A": 14, "C": 2, "E": 9},
}


def dijkstra(graph, source):
    distance = {node: inf for node in graph}
    previous = dict.fromkeys(graph)
    distance[source] = 0
    queue = [(0, source)]
    while queue:
        so_far, node = heapq.heappop(queue)
        if so_far > distance[node]:
            continue
        for neighbour, weight in graph[node].items():
            if (candidate := so_far + weight) < distance[neighbour]:
                distance[neighbour] = candidate
                previous[neighbour] = node
                heapq.heappush(queue, (candidate, neighbour))
    return distance, previous


def path_to(previous, target):
    path = []
    while target is not None:
        path.append(target)
        target = previous[target]
    return path[::-1]


distance, previous = dijkstra(ROADS, "A")
{"distance": distance, "path": path_to(previous, "E")}
