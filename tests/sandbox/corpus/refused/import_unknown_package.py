# expect: refused
# line: 4
# kind: PolicyRefusal
import numpy as np

np.zeros(3)
