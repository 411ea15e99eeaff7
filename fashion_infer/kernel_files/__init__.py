"""Your kernel file: its format, the plug-in built from it, and its registration as a kernel of the library."""
