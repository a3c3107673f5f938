# expect: ["Triangle with 3 sides", 25, 6.0, ["square", "triangle"]]
class Shape:
    _kinds = {}
    sides = 0

    def __init_subclass__(cls, /, sides, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.sides = sides
        Shape._kinds[cls.__name__.lower()] = cls

    @classmethod
    def make(cls, kind, *args, **kwargs):
        return cls._kinds[kind](*args, **kwargs)

    def __class_getitem__(cls, kind):
        return cls._kinds[kind]

    def __str__(self):
        return f"{self.__class__.__name__} with {self.sides} sides"


class Triangle(Shape, sides=3):
    def __init__(self, a, b, c):
        self.lengths = (a, b, c)

    @property
    def area(self):
        s = sum(self.lengths) / 2
        a, b, c = self.lengths
        return (s * (s - a) * (s - b) * (s - c)) ** 0.5


class Square(Shape, sides=4):
    def __init__(self, a, /):
        self._a = a

    @property
    def area(self):
        return self._a**2


[str(Shape.make("triangle", 3, 4, 5)), Shape["square"](5).area, Triangle(3, 4, 5).area, sorted(Shape._kinds)]
