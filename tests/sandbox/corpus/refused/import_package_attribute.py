# expect: refused
# line: 6
# kind: PolicyRefusal
import http

http.client.HTTPSConnection("example.org")
