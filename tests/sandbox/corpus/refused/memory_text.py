# expect: memory_limit
text = "x" * (1 << 30)
