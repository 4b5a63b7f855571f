"""Values as people read them in the page: it runs in node."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page


@needs("node")
def test_the_hour_after_midnight_is_the_noughth(tmp_path: Path) -> None:
    program = """
    import { timeOfDay } from "./text.js";
    const after = new Date(2024, 0, 1, 0, 5, 7).getTime();
    const both = [timeOfDay(after), timeOfDay(after, { hour: "2-digit", minute: "2-digit" })];
    console.log(JSON.stringify(both.map((text) => text.match(/\\d+/g))));
    """
    assert run_page(tmp_path, program) == [["00", "05", "07"], ["00", "05"]]
