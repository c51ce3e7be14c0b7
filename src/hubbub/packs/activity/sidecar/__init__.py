"""The sidecar: a process of its own that looks at the screen, behind two routes, `/probe` and `/parse`.

command, server     how it starts, and who may ask it what
engine              what an engine does: `local`, `omniparser`, and `mock` for tests
capture, windows, accessibility, tesseract, picture   what the local one is made of; each owns one library or program
"""
