"""Commands that run a network."""
