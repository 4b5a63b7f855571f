"""Strange media files, and what happens to a player and its listeners with them."""
