"""The referee, which calls submissions, times the calls, checks the outputs, and notes its findings."""

from .runs import Machine, Observed, Referee, Turns

__all__ = ["Machine", "Observed", "Referee", "Turns"]
