"""Commands for kernel files: `kernel` for your own, `grade` for untrusted ones."""
