# expect: error
# kind: RecursionError
import json

json.loads("[" * 200_000)
