"""The course's editions, the shipped models, and readers and writers of checkpoints (networks with their weights)."""
