"""System services for all packages: files, paths, limits, signals, child processes."""
