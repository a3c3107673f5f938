# expect: crashed
import types

code = types.CodeType(0, 0, 0, 0, 1, 0, b"\x97\x00d\x00S\x00", (), (), (), "f", "f", "f", 1, b"", b"", (), ())
types.FunctionType(code, {})()
