"""The board in a browser: pages made on the server, which need no script and ask for nothing elsewhere."""
