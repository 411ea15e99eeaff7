"""Sources of records: CUPTI, MXNet's own profiler, and the operator library's log."""
