"""Commands for kernel files: your own, and untrusted ones."""
