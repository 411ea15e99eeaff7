"""The API of a board, for programs: JSON over HTTP, a token in each request."""
