# expect: {"fib30": 832040, "product": [[14, 32], [32, 77]], "sum": [[3, 6, 9], [12, 15, 18]], "same": true}
class Matrix:
    def __init__(self, rows):
        self.rows = [list(row) for row in rows]

    @classmethod
    def identity(cls, n):
        return cls([[int(i == j) for j in range(n)] for i in range(n)])

    @property
    def shape(self):
        return len(self.rows), len(self.rows[0])

    def __matmul__(self, other):
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"shapes {self.shape} and {other.shape} do not match")
        columns = list(zip(*other.rows))
        return Matrix([[sum(a * b for a, b in zip(row, col)) for col in columns] for row in self.rows])

    def __add__(self, other):
        return Matrix([[a + b for a, b in zip(r, s)] for r, s in zip(self.rows, other.rows)])

    def __rmul__(self, k):
        return Matrix([[k * a for a in row] for row in self.rows])

    def __pow__(self, n):
        result, base = Matrix.identity(len(self.rows)), self
        while n:
            if n & 1:
                result = result @ base
            base = base @ base
            n >>= 1
        return result

    def __eq__(self, other):
        return isinstance(other, Matrix) and self.rows == other.rows

    def transpose(self):
        return Matrix(zip(*self.rows))


fib = Matrix([[1, 1], [1, 0]])
m = Matrix([[1, 2, 3], [4, 5, 6]])
{"fib30": (fib**30).rows[0][1], "product": (m @ m.transpose()).rows, "sum": (2 * m + m).rows, "same": fib**0 == Matrix.identity(2)}
