# expect: refused
# line: 7
import sys

module = sys
try:
    leaked = module.modules
except Exception as error:
    leaked = None
    print(type(error).__name__)
leaked
