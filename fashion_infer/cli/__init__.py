"""The command line. Most commands have a file of their own."""
