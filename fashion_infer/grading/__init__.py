"""Grading of untrusted kernels.

    trusted: this process, the referee                      not trusted: the worker's sandbox
    --------------------------------------------------      ---------------------------------------------------------
    intake/      files staged by digest; the compiler ---> a box without GPU: sees the system's compiler and the files
    sandbox/     contents and limits of a box -----------> namespaces, read-only system, tmpfs;  inside/: Landlock,
                                                           seccomp, rlimits, no capabilities
    referee/     runs: cases, order                        inside/worker: loads the plug-in
      judging      each call: inputs, time, checks            |
      inputs       from a secret seed                         |  stopped, except during its calls
      tensors      shared memory, guard zones <-------------> |  inputs x and k (shown at the call), output y
      session      "go" / "done", the clock  <--------------> |  one channel; other messages are only informative
      scrutiny     checks the whole output in float64         |
    device/      the GPU's memory, which the referee owns
    rubric/      the checks and their points;  marks: computes the points
    verdict      the document;  formats/: other programs' formats;  grade: all steps from submission to verdict

The referee does not trust the code in the right column. Its own clock measures the time from showing the inputs to the
worker's reply. The output is the content of the shared memory after the reply, when all threads of the worker are
stopped. One figure is the worker's: Op Time in formats with phases, which cannot exceed the referee's time (`marks`).
The page docs/threats.md lists the attacks that were tried, and the attacks that are not covered.
"""
