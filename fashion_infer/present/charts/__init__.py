"""Charts of results, drawn with matplotlib: one module per chart, and the common module `figure`."""
