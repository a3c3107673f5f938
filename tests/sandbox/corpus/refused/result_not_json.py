# expect: error
# kind: NotEncodable
{"answer": [1, 2, {"lock": object()}]}
