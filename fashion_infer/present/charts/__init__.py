"""Pictures of results, drawn by matplotlib: a file a chart, over the common `figure`."""
