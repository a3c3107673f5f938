"""What people would pick instead of the sandbox, each behind the same small protocol."""
