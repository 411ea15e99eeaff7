"""Passes queued jobs to graders, on Ray or in processes on this machine."""
