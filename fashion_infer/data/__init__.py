"""The dataset: its location, its reader, and the built-in substitute."""
