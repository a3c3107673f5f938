# expect: memory_limit
raise MemoryError("not really")
