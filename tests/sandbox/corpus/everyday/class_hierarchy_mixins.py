# expect: [["I AM ACE, A DOG!", "I am leo, a animal", "I AM REX, A PUPPY!"], ["Puppy", "Dog", "Animal", "LoggedMixin", "ComparableMixin", "Base", "object"], true, ["Dog: greeting"], "Dog", true]
class LoggedMixin:
    def __init__(self, *args, **kwargs):
        self._log = []
        super().__init__(*args, **kwargs)

    def log(self, message):
        self._log.append(f"{self.__class__.__name__}: {message}")


class ComparableMixin:
    def __lt__(self, other):
        return self._key() < other._key()


class Base:
    def __init__(self, name):
        self.name = name

    def __init_subclass__(cls):
        cls.kind = cls.__name__.lower()

    def greet(self):
        return f"I am {self.name}"


class Animal(LoggedMixin, ComparableMixin, Base):
    def _key(self):
        return self.name

    def greet(self):
        self.log("greeting")
        return super().greet() + f", a {self.kind}"


class Dog(Animal):
    def greet(self):
        return Animal.greet(self).upper() + "!"


class Puppy(Dog):
    pass


pack = sorted([Puppy("rex"), Dog("ace"), Animal("leo")])
[[a.greet() for a in pack], [c.__name__ for c in Puppy.__mro__], issubclass(Puppy, LoggedMixin), pack[0]._log, Puppy.__bases__[0].__qualname__, isinstance(pack[0], (int, Base))]
