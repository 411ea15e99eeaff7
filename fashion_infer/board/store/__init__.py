"""Storage of a board in a database: SQLite in its folder, or PostgreSQL. Plain functions over a SQLAlchemy session.

`database` opens it; `people`, `admission`, `queue` and `final_runs` write it; `ranking`, `expectation` and `queries`
read it. A viewer is a `Person`, or None for a stranger. Functions that take a viewer return only what the viewer may
see.
"""
