"""A voice process: it has the keys of its connections, encrypts their packets and sends them.

It uses the sockets that the node gives it and opens none. It does not read incoming UDP.
"""
