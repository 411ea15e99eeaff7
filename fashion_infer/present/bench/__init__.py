"""The benchmarks: `columns` are the tables of measurements, `pages` what each benchmark's page says about them."""
