"""A model on a device: what is loaded, the predictor, several GPUs, and the times of layers."""
