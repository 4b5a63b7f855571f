"""A decoder process: it decodes sources, applies filters, mixes, and returns numbered frames of PCM and packets.

It opens no files and no connections: `tonearm.sources` does this in the node. The node's side of these processes is
`tonearm.decoder`.
"""
