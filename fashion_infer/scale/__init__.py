"""Classifies many images in blocks with fused networks, on one or more machines; writes one Parquet file per block."""
