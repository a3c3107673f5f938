"""Other programs: Python children that obey no folder, programs on an absolute PATH, and what `/proc` says of them."""
