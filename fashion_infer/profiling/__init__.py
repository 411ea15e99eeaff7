"""Profiles of a run: nvprof's tables, whole-program times, throughput and a timeline."""
