"""Pictures of results, drawn by matplotlib: one file per chart, over the common `figure`."""
