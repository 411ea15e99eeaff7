"""Submissions on their way in: unpacked, staged where nothing else lies, built."""
