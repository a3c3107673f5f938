"""What messages are made of: advice, validation errors in words, and names that may have been meant."""
