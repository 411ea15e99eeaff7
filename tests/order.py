"""The order of test files: the longest first, so that no long file runs alone at the end while processes are idle."""

# Files that take at least 20 s on two busy cores. Many of them wait, mostly for Ray, while other processes compile.
LONGEST = (
    "scale/test_cluster.py",
    "build/test_sanitizers.py",
    "board/test_board_running.py",
    "pipeline/test_report_command.py",
    "pipeline/test_kernel_files.py",
    "build/test_report_in_browser.py",
    "board/test_board_nodes.py",
    "pipeline/test_pipeline.py",
    "board/test_board_tls.py",
    "board/test_board_queue.py",
    "build/test_release.py",
    "build/test_site.py",
    "board/test_page_in_browser.py",
    "unit/test_shipped_models.py",
    "unit/test_submissions_kernels.py",
    "pipeline/test_tutorial.py",
)


def place(path):
    """Return the position of a file in the order of test files."""
    name = "/".join(path.parts[-2:])
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
