"""Hubbub gives AI agents tools through the Model Context Protocol."""
