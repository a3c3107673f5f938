def multiply(left, right):
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left]


def determinant(matrix):
    if len(matrix) == 1:
        return matrix[0][0]
    total = 0
    for index, value in enumerate(matrix[0]):
        minor = [row[:index] + row[index + 1 :] for row in matrix[1:]]
        total += (-1) ** index * value * determinant(minor)
    return total


a = [[2, 0, 1], [1, 3, 2], [0, 1, 4]]
b = [[1, 2, 3], [4, 5, 6], [7, 8, 10]]
result = {"product": multiply(a, b), "determinants": [determinant(a), determinant(b)]}
