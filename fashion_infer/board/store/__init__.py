"""Stores a board in a database: SQLite in the board's folder, or PostgreSQL.

`database` opens the database; `people`, `admission`, `queue` and `final_runs` write it; `ranking`, `expectation` and
`queries` read it. They have functions that take a SQLAlchemy session. A viewer is a `Person`, or None for a stranger.
Functions that take a viewer return only what the viewer may see.
"""
