"""Two measurements side by side: `run --json`, `bench conv --json` or `bench net --json`, each with its own kind.

`documents` reads a file into times and facts, `verdicts` says what differs by more than the noise.
"""
