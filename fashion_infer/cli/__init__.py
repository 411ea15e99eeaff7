"""The command line. Most commands have a separate file."""
