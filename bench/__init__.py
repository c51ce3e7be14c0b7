"""Benchmarks: Hubbub beside its peers, in one run, as ratios. Started by `bench/run`; read `bench/README.md`."""
