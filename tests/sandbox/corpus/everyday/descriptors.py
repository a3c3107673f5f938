# expect: [18, 46, 18, "name must be str, not int", {"_name": "Grace"}, "age", false]
class Typed:
    """A descriptor that checks the type of what is assigned."""

    def __init__(self, kind, default=None):
        self.kind = kind
        self.default = default

    def __set_name__(self, owner, name):
        self.public = name
        self.private = f"_{name}"

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return getattr(instance, self.private, self.default)

    def __set__(self, instance, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.public} must be {self.kind.__name__}, not {type(value).__name__}")
        setattr(instance, self.private, value)

    def __delete__(self, instance):
        delattr(instance, self.private)


class Person:
    name = Typed(str)
    age = Typed(int, default=18)

    def __init__(self, name):
        self.name = name


person = Person("Grace")
before = person.age
person.age = 45
person.age += 1
try:
    person.name = 7
except TypeError as error:
    message = str(error)
after = person.age
del person.age
[before, after, person.age, message, person.__dict__, Person.age.public, hasattr(person, "_age")]
