"""Grading of untrusted kernels.

    trusted: this process, the referee                      not trusted: the worker's sandbox
    --------------------------------------------------      ---------------------------------------------------------
    intake/      files staged by digest; the compiler ---> a box without GPU: sees the system's compiler and the files
    sandbox/     contents and limits of a box -----------> namespaces, read-only system, tmpfs;  inside/: Landlock,
                                                           seccomp, rlimits, no capabilities
    referee/     runs: cases, order                        inside/worker: loads the plug-in
      caller       one call, for the judge                    |  stopped, except during its calls
      tensors      shared memory, guard zones <-------------> |  inputs x and k (shown at the call), output y
      session      "go" / "done", the clock  <--------------> |  one channel; other messages are only informative
    device/      the GPU's memory, which the referee owns
    rubric/      the checks and their points;  marks: computes the points
    verdict      the document;  formats: other programs' formats;   grade: all steps from submission to verdict

The referee trusts nothing in the right column: it measures the time, and reads the shared memory when the worker is
stopped. Only Op Time in formats with phases is the worker's, and cannot exceed the referee's time (`marks`).
docs/threats.md lists the attacks that were tried, and those that are not covered.
"""
