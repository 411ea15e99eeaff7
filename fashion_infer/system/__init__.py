"""What every room needs of the system: files, paths, limits, signals, child processes."""
