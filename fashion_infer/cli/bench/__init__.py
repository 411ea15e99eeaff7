"""Commands that measure, and read what was measured."""
