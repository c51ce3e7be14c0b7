"""What is kept beyond memory: `spill` for results that are too large to send. Packs may use it too."""
