"""What is kept beyond memory: `sql` for records, `journal` for what must not change, `spill` for what is too large.

Packs may use it too.
"""
