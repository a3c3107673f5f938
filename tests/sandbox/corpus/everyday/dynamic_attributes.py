# expect: [7, {"const_id": 1, "name": "x", "size": 7}, ["AttributeError", "AttributeError", "AttributeError"], true, "default", true]
class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        if name.startswith("get_"):
            return lambda: getattr(self, name[4:])
        raise AttributeError(f"{type(self).__name__!r} has no field {name!r}")

    def __setattr__(self, name, value):
        if name.startswith("const_") and hasattr(self, name):
            raise AttributeError(f"{name} is constant")
        super().__setattr__(name, value)

    def __eq__(self, other):
        return self.__class__ is other.__class__ and self.__dict__ == other.__dict__

    def __dir__(self):
        return sorted(self.__dict__)


record = Record(name="x", size=3)
record.const_id = 1
record.size += 4
problems = []
for action in (lambda: record.missing, lambda: setattr(record, "const_id", 2), lambda: delattr(record, "nope")):
    try:
        action()
    except AttributeError as error:
        problems.append(type(error).__name__)
values = {name: getattr(record, name) for name in dir(record)}
[record.get_size(), values, problems, record == Record(name="x", size=7, const_id=1), getattr(record, "zzz", "default"), hasattr(record, "name")]
