"""`tonearm.bots` under the name that it had."""
