# expect: refused
# line: 4
# kind: PolicyRefusal
import socket

sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
sock.connect(("example.org", 80))
