from abc import ABC, abstractmethod
from math import pi


class Shape(ABC):
    registry = []

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Shape.registry.append(cls.__name__)

    @abstractmethod
    def area(self):
        """The shape's area."""

    def describe(self):
        return f"{type(self).__name__.lower()} of {self.area():.2f}"


class Circle(Shape):
    def __init__(self, radius):
        self.radius = radius

    def area(self):
        return pi * self.radius**2


class Rectangle(Shape):
    def __init__(self, width, height):
        self.width, self.height = width, height

    def area(self):
        return self.width * self.height


class Square(Rectangle):
    def __init__(self, side):
        super().__init__(side, side)


try:
    Shape()
except TypeError as error:
    abstract = type(error).__name__
shapes = [Circle(1), Rectangle(2, 3), Square(4)]
result = [[shape.describe() for shape in shapes], abstract, Shape.registry, isinstance(shapes[2], Rectangle)]
