# expect: error
# line: 5
import os

os.listdir("/etc")
