# expect: error
# kind: SyntaxError
# -*- coding: rot13 -*-
vzcbeg fbpxrg
fbpxrg.fbpxrg()
