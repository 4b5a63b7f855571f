"""Lists of tracks: M3U, PLS, XSPF, ASX, podcast feeds, CUE sheets and folders, read into tracks.

Playlists of HLS streams are in `sources.hls`. Lists on web pages are in `sources.resolver`.
"""
