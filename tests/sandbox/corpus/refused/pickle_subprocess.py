# expect: refused
# line: 7
# kind: PolicyRefusal
import base64
import pickle

pickle.loads(base64.b64decode(b"Y3N1YnByb2Nlc3MKUG9wZW4KKFMnaWQnCnRSLg=="))
