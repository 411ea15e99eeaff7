"""Passes queued jobs to graders, which run on Ray or in processes on this machine."""
