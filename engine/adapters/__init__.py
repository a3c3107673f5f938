"""What we use of other libraries that they do not promise to keep: one module for each library, checked by canaries."""
