"""The board's web pages, which the server renders. They work without scripts, and load nothing from other sites."""
