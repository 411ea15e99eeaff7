"""The board in a browser: pages rendered on the server, which need no script and load nothing from other sites."""
