"""`python -m fashion_infer` is the command line."""

from .cli import main

main()
