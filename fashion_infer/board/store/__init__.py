"""Stores a board in a database: SQLite in the board's folder, or PostgreSQL.

`database` opens the database. `people`, `admission`, `queue` and `final_runs` write to it; `ranking`, `expectation` and
`queries` read from it. Most of their functions take a SQLAlchemy session. A viewer is the `Person` who asks, or None
for a stranger. Functions that take a viewer return only what that person may see.
"""
