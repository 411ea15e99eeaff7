"""Where records come from: CUPTI, MXNet's own profiler, and the operator library's log."""
