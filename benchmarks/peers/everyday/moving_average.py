prices = [10.0, 11.5, 12.0, 11.0, 13.5, 14.0, 13.0]


def moving_average(values, width):
    return [round(sum(values[i : i + width]) / width, 2) for i in range(len(values) - width + 1)]


changes = [round(b - a, 2) for a, b in zip(prices, prices[1:], strict=False)]
result = {"average": moving_average(prices, 3), "changes": changes, "largest": max(changes, key=abs)}
