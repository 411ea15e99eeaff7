"""Code that runs inside the sandbox: it confines itself, loads a submission and calls it when the referee says so.

Standard library alone, and nothing of the package: the sandbox shows this folder, not the one above it. Nothing here is
trusted once a submission is loaded, for that shares the process.
"""
