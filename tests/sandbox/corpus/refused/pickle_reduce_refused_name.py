# expect: refused
# line: 9
# kind: PolicyRefusal
import pickle


class Payload:
    def __reduce__(self):
        return exec, ("print('unpickled')",)


pickle.loads(pickle.dumps(Payload()))
