"""What runs inside the WebAssembly guest. Never imported by the host: only built into an image."""
