# expect: refused
# line: 6
# kind: PolicyRefusal
import pickle

pickle.loads(b"cbuiltins\neval\n(S'1 + 1'\ntR.")
