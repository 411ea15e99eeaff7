"""Presentation of benchmarks: `columns` makes the tables of measurements, `pages` makes each benchmark's page."""
