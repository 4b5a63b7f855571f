"""From a URI to bytes: local files, HTTP, radio, HLS, playlists and pages, under the node's policy and address guard.

Nothing is decoded here: containers and codecs are in `worker.media`. The rules of the policy are in `core.policy`.
"""
