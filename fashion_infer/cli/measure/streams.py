"""`fashion-infer bench net --device all`."""

from ...errors import CheckFailed, UsageError


def measure(editions, batches, repeat, images, as_json, markdown):
    """Measure one GPU beside all, show it, and write what is asked for."""
    from ...bench import stream as measuring
    from ...present import files
    from ...present.bench import stream
    from ...present.render import terminal

    if len(editions) > 1 or len(batches) > 1:
        raise UsageError("--device all measures one edition with one --batch")
    files.check(as_json, markdown)
    usual = measuring.Request()
    request = measuring.Request(
        editions[0] if editions else usual.edition,
        usual.images if images is None else images,
        batches[0] if batches else usual.batch,
        usual.repeat if repeat is None else repeat,
    )
    measured = measuring.measure(request, lambda passes: terminal.show(stream.progress(passes)))
    terminal.show(stream.parts(measured))
    files.save_benchmark(measured, None, stream.page, as_json, None, markdown)
    if measured.wrong:
        raise CheckFailed(f"wrong: {measured.reason}")
