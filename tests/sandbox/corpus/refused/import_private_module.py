# expect: refused
# line: 4
# kind: PolicyRefusal
import _thread

_thread.start_new_thread(print, ())
