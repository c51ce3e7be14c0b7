"""The tools of the pack, each file one kind; `register(table)` puts them on the table's server.

They read words and fill in what the context knows; whatever can go wrong otherwise, the
keeper says itself.
"""
