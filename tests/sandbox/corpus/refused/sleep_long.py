# expect: timeout
# limits: {"timeout_s": 0.4}
import time

time.sleep(3600)
