"""Commands for kernel files: one's own, and those of others."""
