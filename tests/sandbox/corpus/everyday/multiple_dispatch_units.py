# expect: ["1.9km", "0.75km", 3.75, 3, "300m", 1500.0, 400, 3, "2.3cm", ["m"]]
"""Units of measure: conversions, operator overloading, caching on the instance."""
import math
import numbers


class Quantity:
    _factors = {"m": 1.0, "km": 1000.0, "cm": 0.01}
    __slots__ = ("_value", "_unit", "_cache")

    def __init__(self, value, unit="m"):
        self._value, self._unit, self._cache = value, unit, {}

    def to(self, unit):
        if unit not in self._cache:
            self._cache[unit] = self._value * self._factors[self._unit] / self._factors[unit]
        return self._cache[unit]

    def __add__(self, other):
        return Quantity(self._value + other.to(self._unit), self._unit)

    def __truediv__(self, other):
        if isinstance(other, numbers.Number):
            return Quantity(self._value / other, self._unit)
        return self.to("m") / other.to("m")

    def __floordiv__(self, other):
        return int(self / other)

    def __divmod__(self, other):
        times = self // other
        return times, Quantity(self.to("m") - times * other.to("m"))

    def __round__(self, digits=0):
        return Quantity(round(self._value, digits), self._unit)

    def __float__(self):
        return float(self.to("m"))

    def __int__(self):
        return int(float(self))

    def __ceil__(self):
        return math.ceil(float(self))

    def __str__(self):
        return f"{self._value:g}{self._unit}"


track, lap = Quantity(1.5, "km"), Quantity(400)
times, rest = divmod(track, lap)
[str(track + lap), str(track / 2), track / lap, times, str(rest), float(track), int(lap), math.ceil(Quantity(2.2)), str(round(Quantity(2.345, "cm"), 1)), sorted(track._cache)]
