"""What parts of the page do with what people do there: they run in node, with a small document."""

from pathlib import Path

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page


@needs("node")
def test_metadata_that_was_changed_meanwhile_is_not_replaced_unawares(tmp_path: Path) -> None:
    program = """
    import { drawn } from "./small_dom.mjs";
    import { Notices } from "./controls.js";
    import { Metadata } from "./player_facts.js";
    import { html, render } from "./preact.js";
    const notices = new Notices();
    const sent = [];
    const act = async (method, path, { value }) => sent.push(value);
    const show = async (metadata) => {
      render(html`<${Metadata} state=${{ metadata }} act=${act} notices=${notices} />`, document.body);
      await drawn();
    };
    const type = async (text) => {
      Object.assign(document.body.all("textarea")[0], { value: text }).tell("input");
      await drawn();
    };
    const save = async () => {
      document.body.all("form")[0].tell("submit");
      await drawn();
    };
    await show({ by: "ada" });
    await type('{"mine": 1}');
    await show({ by: "eve" });
    await save();
    const between = [sent.length, notices.shown.text];
    await save();
    await show({ mine: 1 });
    await type('{"mine": 2}');
    await save();
    console.log(JSON.stringify([between, sent]));
    process.exit();
    """
    warning = "The metadata was changed meanwhile. Save again to replace it, or Undo to see it."
    assert run_page(tmp_path, program) == [[0, warning], [{"mine": 1}, {"mine": 2}]]
