"""Values as people read them in the page: it runs in node."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page


@needs("node")
def test_what_has_no_title_is_called_by_the_end_of_its_address(tmp_path: Path) -> None:
    program = """
    import { titleOf } from "./text.js";
    console.log(JSON.stringify(given.map((uri) => titleOf({ uri }))));
    """
    called = {
        "https://a.example/one%20two.mp3?key=1#t=3": "one two.mp3",
        "https://a.example/": "a.example",
        "music/Etude in C# minor.mp3": "Etude in C# minor.mp3",
        "/music/Why?/50%20.mp3#t=1.5,3": "50%20.mp3",
        "file:///music/C%23.mp3": "C#.mp3",
    }
    assert run_page(tmp_path, program, *called) == [*called.values()]
