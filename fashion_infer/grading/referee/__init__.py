"""The referee: calls submissions, times them, looks at what they wrote, and notes what it finds."""

from .runs import Machine, Observed, Referee, Turns

__all__ = ["Machine", "Observed", "Referee", "Turns"]
