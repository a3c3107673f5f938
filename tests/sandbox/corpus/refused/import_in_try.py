# expect: refused
# line: 5
# kind: PolicyRefusal
try:
    import socket
except ImportError:
    socket = None
