# expect: [["cat", "car", "card"], ["do", "dog"], [], true, false]
class Trie:
    def __init__(self, words=()):
        self._root = {}
        self._end = object()
        for word in words:
            self.add(word)

    def add(self, word, weight=1):
        node = self._root
        for letter in word:
            node = node.setdefault(letter, {})
        node[self._end] = node.get(self._end, 0) + weight

    def _find(self, prefix):
        node = self._root
        for letter in prefix:
            if (node := node.get(letter)) is None:
                return None
        return node

    def _walk(self, node, prefix):
        for key, child in node.items():
            if key is self._end:
                yield prefix, child
            else:
                yield from self._walk(child, prefix + key)

    def complete(self, prefix, limit=3):
        node = self._find(prefix)
        if node is None:
            return []
        found = sorted(self._walk(node, prefix), key=lambda pair: (-pair[1], pair[0]))
        return [word for word, _ in found[:limit]]

    def __contains__(self, word):
        node = self._find(word)
        return node is not None and self._end in node


trie = Trie("car card care cat dog door do".split())
trie.add("cat", weight=5)
[trie.complete("ca"), trie.complete("do", limit=2), trie.complete("x"), "car" in trie, "ca" in trie]
