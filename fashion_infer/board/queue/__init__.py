"""Starts graders for queued jobs, on Ray or in processes of this machine."""
