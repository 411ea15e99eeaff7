"""Networks with weights: the editions, the shipped models, and the files that hold them."""
