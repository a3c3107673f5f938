# expect: refused
# line: 7
# kind: PolicyRefusal
try:
    1 / 0
except ZeroDivisionError as error:
    frame = error.__traceback__.tb_frame
