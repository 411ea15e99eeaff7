"""Stores a board in a database: SQLite in the board's folder, or PostgreSQL.

Functions that take a viewer (the `Person` who asks, or None for a stranger) return only what that person may see.
"""
