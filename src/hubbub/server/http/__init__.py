"""The HTTP endpoint: three dialects at one address; the era ladder decides which one a request speaks."""
