"""Entry point of `fashion-infer` and `python -m fashion_infer`. It also handles Ctrl-C during the first imports."""

import sys


def main() -> None:
    """Run the command line and end the process with its exit code (see `errors`)."""
    try:
        from .cli.main import main as run
    except KeyboardInterrupt:
        exec("")  # for the exit code 130: see the comment in cli/main.py
        sys.stderr.write("fashion-infer: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
