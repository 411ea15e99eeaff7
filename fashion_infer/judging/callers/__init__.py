"""Callers of kernels: in this process, in a process per shape, and in a program built with sanitizers."""
