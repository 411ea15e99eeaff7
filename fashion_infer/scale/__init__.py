"""Classifies many images, on one or more machines: in blocks, by fused networks, with one Parquet file per block."""
