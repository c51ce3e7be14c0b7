"""The only door out: whatever Hubbub asks of the network, it asks through here."""
