"""Context that never overflows: counted, summarised before it is too long, with what matters kept word for word."""
