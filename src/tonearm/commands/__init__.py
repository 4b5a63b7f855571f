"""Commands that speak to a node, through the client."""
