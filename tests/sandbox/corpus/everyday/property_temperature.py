# expect: [[30.0, 86.0], "below absolute zero", 0.0, 1, true, "Degrees, stored in Celsius.", 0.0]
class Temperature:
    """Degrees, stored in Celsius."""

    _count = 0

    def __init__(self, celsius=0.0):
        self.celsius = celsius
        type(self)._count += 1

    @property
    def celsius(self):
        return self.__celsius

    @celsius.setter
    def celsius(self, value):
        if value < -273.15:
            raise ValueError("below absolute zero")
        self.__celsius = value

    @property
    def fahrenheit(self):
        return self.__celsius * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self.celsius = (value - 32) * 5 / 9

    @fahrenheit.deleter
    def fahrenheit(self):
        self.__celsius = 0.0

    @classmethod
    def from_text(cls, text):
        return cls(float(text.rstrip("°C ")))

    @staticmethod
    def is_warm(degrees):
        return degrees > 20


t = Temperature.from_text("25 °C")
t.fahrenheit += 9
readings = [round(t.celsius, 6), t.fahrenheit]
try:
    t.celsius = -300
except ValueError as error:
    problem = str(error)
del t.fahrenheit
[readings, problem, t.celsius, Temperature._count, Temperature.is_warm(21), Temperature.__doc__, t._Temperature__celsius]
