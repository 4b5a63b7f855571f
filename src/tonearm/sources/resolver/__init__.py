"""Web pages: yt-dlp finds the link to the audio, in confined processes without network.

The node makes the requests of these processes with `sources.http`, and opens the link that was found.
"""
