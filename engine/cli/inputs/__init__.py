"""What people type or pipe as inputs: JSON, `key=value`, a tool's own flags, files and stdin."""
