"""A soak run: mixed load with faults against one server for a long time, then a check for leaks."""
