"""Storage: `sql` for databases, `journal` for tamper-evident records, `spill` for results that are too large to send.

Packs may use it too.
"""
