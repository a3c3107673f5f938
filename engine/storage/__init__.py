"""Files and locks of executions, and the points where tests kill a writer."""
