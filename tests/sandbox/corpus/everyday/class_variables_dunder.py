# expect: ["create table user (id integer primary key, name text)", ["User"], {"id": 1, "name": "ann"}]
"""Classes in the style of object-relational mappers: options in double-underscore names of their own."""


class Column:
    def __init__(self, kind, primary=False):
        self.kind, self.primary = kind, primary


class Model:
    __abstract__ = True
    _models = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._models[cls.__name__] = cls

    def __json__(self):
        return dict(self.__dict__)

    @classmethod
    def ddl(cls):
        columns = [f"{name} {c.kind}{' primary key' * c.primary}" for name, c in cls.__dict__.items() if isinstance(c, Column)]
        return f"create table {cls.__name__.lower()} ({', '.join(columns)})"


class User(Model):
    __tablename__ = "users"
    __table_args__ = {"schema": "public"}

    id = Column("integer", primary=True)
    name = Column("text")


user = User()
user.id, user.name = 1, "ann"
[User.ddl(), sorted(Model._models), user.__dict__]
