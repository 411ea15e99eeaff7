"""Finds, downloads and reads Fashion-MNIST, the built-in set that replaces it, and the user's own images."""
