# expect: refused
# line: 9
# kind: PolicyRefusal
class Meta(type):
    def __new__(mcls, name, bases, namespace, run=None):
        return super().__new__(mcls, name, bases, namespace)


class Job(metaclass=Meta, run=eval):
    pass
