"""The dataset: where it is, how it is downloaded and read, the built-in substitute, and the user's own images."""
