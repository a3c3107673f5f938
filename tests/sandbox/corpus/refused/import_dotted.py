# expect: refused
# line: 6
# kind: PolicyRefusal
import json

import urllib.request

json.load(urllib.request.urlopen("https://example.org/data.json"))
