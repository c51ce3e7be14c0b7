"""A soak run: mixed load with faults against one server for a long time, and what it leaves behind."""
