"""Programs for developers of tonearm: checks, trials and long runs. Measurements are in `bench`."""
