"""Starts programs that a test interrupts with SIGINT."""

import signal
import subprocess


def interruptible(command, **options):
    """Start a program with the default handling of SIGINT, even if the test process ignores SIGINT, as under nohup."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )
