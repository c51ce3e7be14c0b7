"""The HTTP endpoint: three dialects behind one address, told apart by the era ladder."""
