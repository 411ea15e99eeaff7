"""Networks with weights: the course's editions, the shipped models, and readers and writers of their files."""
