"""The sidecar: a separate process that reads the screen and serves two routes, `/probe` and `/parse`.

command, server     startup, routes and access control
engine              the interface of an engine: `local`, `omniparser`, and `mock` for tests
capture, windows, accessibility, tesseract, picture   parts of the local engine; each owns one library or program
"""
