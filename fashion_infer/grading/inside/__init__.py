"""Code that runs inside the sandbox: it confines itself, loads a submission, and calls it when the referee says so.

It imports only the standard library, because the sandbox shows this folder but not the rest of the package. After a
submission has been loaded, the referee trusts nothing here, because the submission runs in the same process.
"""
