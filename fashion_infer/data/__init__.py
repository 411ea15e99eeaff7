"""The dataset: where it lies, how it is read, and what stands in for it."""
