"""The order of the files of tests: the longest first, for no process is to be left with one when others have ended."""

# With the processor time and the seconds that each took on two busy cores. Many wait, for Ray above all: beside those
# that compile. What is not named here takes less than 30 s.
LONGEST = (
    "build/test_sanitizers.py",  # 76 of 156 s
    "scale/test_cluster.py",  # 31 of 131
    "board/test_board_running.py",  # 22 of 105
    "pipeline/test_report_command.py",  # 22 of 101
    "pipeline/test_kernel_files.py",  # 59 of 99
    "unit/test_shipped_models.py",  # 74 of 90
    "board/test_board_nodes.py",  # 11 of 74
    "pipeline/test_tutorial.py",  # 28 of 65
    "pipeline/test_pipeline.py",  # 69 of 62
    "board/test_board_tls.py",  # 26 of 52
    "board/test_board_queue.py",  # 9 of 50
    "unit/test_submissions_kernels.py",  # 29 of 36
)


def place(path):
    """Where a file is in that order."""
    name = "/".join(path.parts[-2:])
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
