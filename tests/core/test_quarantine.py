from tonearm.core.quarantine import MAX_SUSPECTS, QUARANTINE_S, Quarantine


def test_two_deaths_quarantine_a_source_for_an_hour() -> None:
    quarantine = Quarantine()
    assert not quarantine.is_quarantined("a", 0.0)
    quarantine.suspect("a", 0.0)
    assert not quarantine.is_quarantined("a", 1.0)
    quarantine.note_open("a")
    quarantine.suspect("a", 10.0)
    assert quarantine.is_quarantined("a", 10.0)
    assert quarantine.is_quarantined("a", 10.0 + QUARANTINE_S - 1)
    assert not quarantine.is_quarantined("b", 10.0)
    assert not quarantine.is_quarantined("a", 10.0 + QUARANTINE_S)


def test_a_death_while_several_players_have_the_source_counts_once() -> None:
    quarantine = Quarantine()
    for moment_s in (0.0, 0.01, 0.02):
        quarantine.suspect("a", moment_s)
    assert not quarantine.is_quarantined("a", 0.02)
    quarantine.note_open("a")
    quarantine.suspect("a", 0.021)  # However soon: a spare process is ready at once.
    assert quarantine.is_quarantined("a", 1.0)


def test_after_its_time_a_source_starts_anew() -> None:
    quarantine = Quarantine()
    for moment_s in (0.0, 0.5, QUARANTINE_S + 1):
        quarantine.note_open("a")
        quarantine.suspect("a", moment_s)
    assert not quarantine.is_quarantined("a", QUARANTINE_S + 1)


def test_a_death_long_ago_is_forgotten() -> None:
    quarantine = Quarantine()
    for moment_s in (0.0, QUARANTINE_S + 1):
        quarantine.note_open("a")
        quarantine.suspect("a", moment_s)
    assert not quarantine.is_quarantined("a", QUARANTINE_S + 1)


def test_only_so_many_sources_are_remembered() -> None:
    quarantine = Quarantine()
    for source in ("first", "kept"):
        quarantine.suspect(source, 0.0)
        quarantine.note_open(source)
        quarantine.suspect(source, 0.5)
    for number in range(MAX_SUSPECTS - 1):
        quarantine.suspect(f"other {number}", 1.0)
    assert not quarantine.is_quarantined("first", 1.0)
    assert quarantine.is_quarantined("kept", 1.0)
