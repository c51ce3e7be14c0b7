"""The server framework: typed functions become tools, resources and prompts."""
