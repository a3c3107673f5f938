class Tree:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def insert(self, value):
        side = "left" if value < self.value else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Tree(value))
        else:
            child.insert(value)

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.value
        if self.right:
            yield from self.right

    def depth(self):
        return 1 + max((child.depth() for child in (self.left, self.right) if child), default=0)


tree = Tree(50)
for number in (30, 70, 20, 40, 60, 80, 10):
    tree.insert(number)
result = [list(tree), tree.depth(), hasattr(tree, "left"), getattr(tree, "colour", "none")]
