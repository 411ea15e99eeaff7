"""Profiles of a run: nvprof's tables, whole-program times, throughput, a timeline and hardware counters."""
