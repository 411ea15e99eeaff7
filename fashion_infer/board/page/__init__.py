"""The board's web pages, rendered on the server. They need no script and load nothing from other sites."""
