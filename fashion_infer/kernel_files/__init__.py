"""A user's kernel file: its format, a plug-in built from it, and a kernel of the operator library by its name."""
