"""`python -m fashion_infer` is the command line."""

from .cli.main import main

main()
