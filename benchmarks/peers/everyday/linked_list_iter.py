class Node:
    __slots__ = ("next", "value")

    def __init__(self, value, following=None):
        self.value = value
        self.next = following


class LinkedList:
    def __init__(self, values=()):
        self.head = None
        for value in reversed(list(values)):
            self.head = Node(value, self.head)

    def __iter__(self):
        node = self.head
        while node is not None:
            yield node.value
            node = node.next

    def __contains__(self, wanted):
        return any(value == wanted for value in self)

    def reverse(self):
        previous, node = None, self.head
        while node:
            node.next, previous, node = previous, node, node.next
        self.head = previous


items = LinkedList("abcd")
items.reverse()
result = ["".join(items), "b" in items, "z" in items, list(LinkedList())]
