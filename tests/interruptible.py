"""Programs started so that Ctrl-C can reach them."""

import signal
import subprocess


def interruptible(command, **options):
    """Start a program that takes SIGINT even where the tests themselves ignore it (nohup, a background job)."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )
