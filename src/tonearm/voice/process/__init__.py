"""A voice process: it holds the keys of its connections, encrypts their packets and sends them.

It has the sockets that the node gives it and opens none. It reads nothing that comes in over UDP.
"""
