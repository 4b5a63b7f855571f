"""Links of Spotify, Deezer and Apple Music: reads what the service says about a track, and finds the same recording on
another site.

The service's own audio is not used. Which links are of a service is decided in `core.service_links`.
"""
