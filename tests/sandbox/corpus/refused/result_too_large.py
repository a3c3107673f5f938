# expect: result_limit
# limits: {"max_result_bytes": 1000}
["x" * 100] * 100
