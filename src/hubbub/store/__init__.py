"""What is kept beyond memory: `sql` for records, `journal` for what must not change.

Packs may use it too.
"""
