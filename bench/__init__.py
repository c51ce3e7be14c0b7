"""Benchmarks that compare Hubbub with its peers in one run. Started by `bench/run`; see `bench/README.md`."""
