# expect: error
# kind: NotEncodable
loop = [1]
loop.append({"again": loop})
loop
