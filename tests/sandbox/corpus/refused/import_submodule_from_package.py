# expect: refused
# line: 4
# kind: PolicyRefusal
from urllib import request

request.urlopen("https://example.org")
