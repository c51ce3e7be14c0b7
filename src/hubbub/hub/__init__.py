"""Many servers behind one endpoint: each a peer, and the hub a peer that picks one."""
