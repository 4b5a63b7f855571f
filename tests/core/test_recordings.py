"""Which of what a search finds is the recording that is wanted."""

from tonearm.core.play_queue import PlaylistEntry
from tonearm.core.recordings import Recording, fitting, nearest
from tonearm.core.source_uri import parse_source_uri


def wanted(title: str, *artists: str, length_s: float = 244) -> Recording:
    return Recording("https://www.deezer.com/track/1", title, artists, round(length_s * 1000))


def found(title: str, author: str, length_s: float = 244) -> PlaylistEntry:
    return PlaylistEntry(parse_source_uri("https://video.example/1"), title, author, length_ms=round(length_s * 1000))


FERRY = wanted("Night Ferry", "The Lanterns")


SAME = [
    (FERRY, "Night Ferry", "The Lanterns - Topic", 244),
    (FERRY, "The Lanterns - Night Ferry (Official Video) [HD]", "LanternsVEVO", 246),
    (FERRY, "Lanterns: NIGHT FERRY", "Some Label", 253),  # 4 %
    (FERRY, "Night Ferry (2011 Remaster)", "The Lanterns", 244),
    (wanted("Night Ferry - Remastered 2011", "The Lanterns"), "The Lanterns - Night Ferry", "x", 244),
    (wanted("Night Ferry (feat. Ada Blue)", "The Lanterns", "Ada Blue"), "Night Ferry", "Ada Blue", 244),
    (wanted("Don't Go", "Sea"), "Dont Go", "Sea", 244),
    (wanted("Café", "Beyoncé"), "CAFE", "Beyonce", 244),
    (wanted("Night Ferry - Live at Home", "The Lanterns"), "The Lanterns - Night Ferry (Live)", "x", 244),
    (wanted("夜のフェリー", "灯籠"), "【公式】灯籠「夜のフェリー」MV", "灯籠", 244),
    (wanted("???", "Who"), "Who - ???", "x", 244),
    (wanted("Night Ferry", "Ada Blue & The Lanterns"), "Night Ferry", "The Lanterns", 244),
    (wanted("Hit", "Nobody", length_s=0), "Hit", "Nobody", 100),  # nobody says how long it is
    (wanted("Hit", "Nobody", length_s=20), "Hit", "Nobody", 22.9),  # 3 s
]
OTHERS = [
    (FERRY, "Night Ferry (Live at Wembley)", "The Lanterns", 244),
    (FERRY, "Night Ferry", "The Lanterns", 254),
    (FERRY, "Night Ferry", "The Lanterns", 0),  # no length to compare
    (FERRY, "The Lanterns - Night Ferry", "Karaoke Version", 244),
    (FERRY, "The Lanterns - Night Ferry (Sped Up)", "x", 244),
    (FERRY, "Night Ferry", "Somebody Else", 244),
    (FERRY, "Day Ferry", "The Lanterns", 244),
    (wanted("Night Ferry - Acoustic", "The Lanterns"), "Night Ferry", "The Lanterns", 244),
    (wanted("Night Ferry (Live)", "The Lanterns"), "Night Ferry", "The Lanterns", 244),
    (wanted("Live Forever", "Oasis"), "Oasis - Live Forever (Live)", "x", 244),
    (wanted("Hit", "Nobody", length_s=20), "Hit", "Nobody", 23.1),
]


def test_the_same_recording_under_another_name_and_another_one_of_the_same_name() -> None:
    fit = [row for row in SAME + OTHERS if fitting(row[0], [found(*row[1:])])]
    assert fit == SAME


def test_the_artists_own_upload_and_what_has_the_whole_title_go_before_others_and_what_comes_closest_is_named() -> None:
    others, near = found("The Lanterns - Night Ferry", "x"), found("The Lanterns - Night Ferry", "y", 245)
    own = found("Night Ferry", "The Lanterns - Topic", 246)
    assert fitting(FERRY, [near, others, own]) == [own, others, near]
    whole = found("Night Ferry (Ada\u2019s Version)", "The Lanterns", 246)
    assert fitting(wanted("Night Ferry (Ada's Version)", "The Lanterns"), [own, whole]) == [whole, own]
    live, other = found("Night Ferry (Live)", "The Lanterns", 401), found("Another", "x")
    assert nearest(FERRY, [other, live]) is live
    assert nearest(FERRY, []) is None


def test_what_is_searched() -> None:
    assert wanted("Night Ferry (feat. Ada Blue)", "The Lanterns", "Ada Blue").words == "The Lanterns Night Ferry"
    assert wanted("Night Ferry (Live)", "The Lanterns").words == "The Lanterns Night Ferry (Live)"


def test_many_artists_are_an_author_of_limited_length() -> None:
    assert wanted("Hit", "a" * 500, "b" * 500, "c").author == f"{'a' * 500}, {'b' * 498}"
