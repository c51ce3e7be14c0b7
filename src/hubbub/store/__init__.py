"""Storage: `sql` for databases, `hash_chain` for tamper-evident records, `spill` for large results.

Packs may use it too.
"""
