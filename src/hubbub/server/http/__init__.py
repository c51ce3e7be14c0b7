"""The HTTP endpoint: three dialects at one address; `hubbub.protocol.dialect` decides which one a request uses."""
