class Temperature:
    lowest = -273.15

    def __init__(self, celsius=0.0):
        self.celsius = celsius

    @property
    def celsius(self):
        return self._celsius

    @celsius.setter
    def celsius(self, value):
        if value < self.lowest:
            raise ValueError(f"{value} is below absolute zero")
        self._celsius = value

    @property
    def fahrenheit(self):
        return self.celsius * 9 / 5 + 32

    @classmethod
    def from_fahrenheit(cls, value):
        return cls((value - 32) * 5 / 9)

    @staticmethod
    def is_freezing(value):
        return value <= 0


boiling = Temperature(100)
try:
    boiling.celsius = -500
except ValueError as error:
    refused = str(error)
result = [boiling.fahrenheit, round(Temperature.from_fahrenheit(50).celsius, 2), refused, Temperature.is_freezing(-3)]
