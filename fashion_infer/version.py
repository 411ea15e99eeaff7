"""The version of the package, which a release raises."""

__version__ = "0.2.0"
