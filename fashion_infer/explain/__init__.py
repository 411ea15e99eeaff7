"""Why a kernel is wrong or slow: findings with the line, the cost and the remedy."""
