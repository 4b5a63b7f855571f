"""The DSP code of a player's filters, normalization and the limiter.

The values of the filters and their limits are in `core.filters`. Speed and pitch are in `worker.mixing`.
"""
