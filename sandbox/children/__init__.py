"""Starting other programs: Python children that obey no folder, and programs found on an absolute PATH."""
