"""Whether a kernel is correct: references in float64, trials of a kernel, the diagnosis of an output, the verdict."""
