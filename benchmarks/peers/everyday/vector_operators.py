class Vector:
    def __init__(self, *parts):
        self.parts = parts

    def __add__(self, other):
        return Vector(*(a + b for a, b in zip(self.parts, other.parts, strict=True)))

    def __mul__(self, factor):
        return Vector(*(part * factor for part in self.parts))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.parts, other.parts, strict=True))

    def __eq__(self, other):
        return isinstance(other, Vector) and self.parts == other.parts

    def __hash__(self):
        return hash(self.parts)

    def __getitem__(self, index):
        return self.parts[index]

    def __len__(self):
        return len(self.parts)

    def __repr__(self):
        return f"Vector{self.parts}"


a, b = Vector(1, 2, 3), Vector(4, 5, 6)
result = [repr(a + b), repr(2 * a), a @ b, a == Vector(1, 2, 3), len({a, Vector(1, 2, 3), b}), b[-1], len(a), list(a)]
