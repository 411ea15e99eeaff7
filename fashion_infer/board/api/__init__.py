"""A board's HTTP API for programs: answers are JSON, and each request has a person's token."""
