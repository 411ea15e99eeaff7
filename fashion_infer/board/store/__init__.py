"""What a board keeps, in a database: SQLite in its folder, or PostgreSQL. Plain functions over a SQLAlchemy session.

`database` opens it; `people`, `accepting`, `queue`, `finalising` change it; `ranking`, `expectation`, `reading` ask it.
A viewer is a `Person`, or None for a stranger: functions that take one give nothing that the viewer may not see.
"""
