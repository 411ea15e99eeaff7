"""Kernel files of the user: their formats, the plug-ins built from them, and their registration in the library."""
