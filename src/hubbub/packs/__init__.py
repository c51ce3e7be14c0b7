"""The packs that come with Hubbub. Each sees the public names only, like anybody's."""
