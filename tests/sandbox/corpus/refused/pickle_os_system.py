# expect: refused
# line: 5
import pickle

pickle.loads(b"cos\nsystem\n(S'id'\ntR.")
