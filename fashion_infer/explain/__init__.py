"""Explains why a kernel is wrong or slow. Each finding names the source line, the cost and the remedy."""
