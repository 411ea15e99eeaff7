"""Starts programs so that they receive Ctrl-C."""

import signal
import subprocess


def interruptible(command, **options):
    """Start a program that handles SIGINT even if the test process ignores SIGINT (nohup, a background job)."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )
