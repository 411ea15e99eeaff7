"""`fashion-infer bench conv --grid`."""

from ...errors import CheckFailed


def measure(backend, device, against, as_json, plot, markdown, full, batches, seed, seconds):
    """Measure the grid, show it, and write what is asked for."""
    from ... import devices
    from ...bench.grid import measuring, points
    from ...present import files
    from ...present.bench import common, grid
    from ...present.charts import grid as chart
    from ...present.render import terminal

    files.check(as_json, markdown, pictures=[plot])
    batches = points.parse_batches(batches) or None
    backend = devices.choose(backend, device).backend
    request = measuring.Request(backend, device, batches, full, 1 if seed is None else seed, against, seconds)
    measured = measuring.measure(request, lambda *done: terminal.show(grid.progress(*done)))
    terminal.show(grid.summary(measured))
    terminal.notice(common.notice(measured))
    files.save_benchmark(measured, chart.draw, grid.page, as_json, plot, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {', '.join(measured.wrong)}")
