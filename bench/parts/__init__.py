"""The parts of the measurement: each module measures one thing."""
