"""The benchmarks: what each found, as parts of a page; `common` is what their pages share."""
