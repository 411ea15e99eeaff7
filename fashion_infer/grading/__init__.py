"""Grading of untrusted kernels.

    trusted: this process, the referee                      not trusted: the worker's sandbox
    --------------------------------------------------      ---------------------------------------------------------
    intake/      files staged by digest; the compiler ---> a box without GPU: sees the system's compiler and the files
    sandbox/     what a box may see and take ------------> namespaces, read-only system, tmpfs;  inside/: Landlock,
                                                           seccomp, rlimits, no capabilities
    referee/     runs: cases, order                        inside/worker: loads the plug-in
      judging      each call: inputs, clock, look             |
      inputs       a secret seed                              |  stopped, except during its calls
      tensors      shared memory, guard zones <-------------> |  x, k (shown when due) and y
      session      "go" / "done", the clock  <--------------> |  one channel; what else it says is information
      scrutiny     the whole output, by float64               |
    device/      the GPU's memory, which the referee owns
    rubric/      what is asked;  marks: points by it
    verdict      the document;  formats/ for others;  grade: the road through all of this

Nothing right of the line decides anything: time is the referee's between showing the inputs and the worker's word, and
an output is what the shared memory holds when that word has come and every thread of the worker is stopped. The page
docs/threats.md lists what was tried against it, and what is not covered.
"""
