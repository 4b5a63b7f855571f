"""HLS streams: reads their playlists, chooses a variant, follows live playlists, and fetches and decrypts segments.

The HTTP requests are made by `sources.http`. Playlists of tracks, such as M3U, are in `sources.lists`.
"""
