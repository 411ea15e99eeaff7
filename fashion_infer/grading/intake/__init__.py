"""Intake of submissions: unpacking, staging in separate folders, and building."""
