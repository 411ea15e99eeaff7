"""A board's API for programs: JSON over HTTP, with a token in each request."""
