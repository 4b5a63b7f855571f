"""`tonearm listen`: a listener for a terminal."""
