"""`tonearm listen`: a listener for a terminal, on nothing but the node's public interface."""
