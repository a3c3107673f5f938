# expect: refused
# line: 4
# kind: PolicyRefusal
page = t"<b>{eval('1 + 1')}</b>"
