"""Where the time of a run goes: nvprof's tables, whole-program times, throughput, a timeline and hardware counters."""
