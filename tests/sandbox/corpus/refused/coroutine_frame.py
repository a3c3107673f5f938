# expect: refused
# line: 10
# kind: PolicyRefusal
async def job():
    pass


waiting = job()
try:
    frame = waiting.cr_frame
finally:
    waiting.close()
