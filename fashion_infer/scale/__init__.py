"""More images than one machine: blocks of images through fused networks on Ray, results as one Parquet file a block."""
