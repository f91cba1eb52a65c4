"""The README's generated blocks: tables made from the catalogs, and a real report as an example.

`python tests/readme_blocks.py --write` brings them, and the checksums of fixtures/, up to date; a test
compares them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dflash_doctor.checks.catalog import CHECKS
from dflash_doctor.cli.main import COMMANDS
from dflash_doctor.engines.catalog import ENGINES
from dflash_doctor.reports.wording import DEFINITIONS
from dflash_doctor.settings import options

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def blocks() -> dict[str, str]:
    """Text of every block that follows from the code alone."""
    return {
        "commands": _table(
            ("command", "what it does"),
            [(f"`dflash-doctor {name}`", text) for name, text in COMMANDS.items()],
        ),
        "checks": _table(
            ("code", "name", "what is wrong"),
            [(entry.code, f"`{entry.name}`", entry.summary) for entry in CHECKS],
        ),
        "engines": _table(
            ("engine", "what it is"), [(f"`{entry.name}`", entry.summary) for entry in ENGINES]
        ),
        "settings": _table(
            ("option", "default", "meaning"),
            [(f"`{item.flag}`", _default(item.default), item.help) for item in options()],
        ),
        "readings": readings(),
        "metrics": _table(("name", "meaning"), [(f"`{name}`", text) for name, text in DEFINITIONS.items()]),
    }


def readings() -> str:
    """How engines read a drafter that speculators wrote, as `check` prints it."""
    import tempfile

    sys.path.insert(0, str(ROOT / "tests" / "checks"))
    from pair_files import speculators_pair

    from dflash_doctor.reports.check_terminal import render_check

    pair = speculators_pair()
    pair.draft["sliding_window_non_causal"] = False
    with tempfile.TemporaryDirectory() as folder:
        record = pair.inspect(Path(folder)).record
    lines = render_check(record, width=100, color=False).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("read by"))
    end = lines.index("", begin)
    return "```text\n" + "\n".join(lines[begin:end]) + "\n```"


def static_modes() -> str:
    """The table of CONTRIBUTING: which check finds which failure mode without an engine."""
    sys.path[:0] = [str(ROOT / "tests" / "checks"), str(ROOT / "tests")]
    from static_modes import table

    return table()


def replace_block(text: str, name: str, content: str) -> str:
    """The text with the block called `name` replaced.

    Raises:
        ValueError: there is no such block.
    """
    begin, end = f"<!-- generated:{name} -->", f"<!-- /generated:{name} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the README has no block {name}")
    return pattern.sub(lambda _: f"{begin}\n{content}\n{end}", text, count=1)


def block_of(text: str, name: str) -> str:
    """What stands in the block called `name`."""
    begin, end = f"<!-- generated:{name} -->\n", f"\n<!-- /generated:{name} -->"
    return text[text.index(begin) + len(begin) : text.index(end)]


def _default(value: object) -> str:
    return "" if value in (None, ()) else f"`{value}`"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    """Write blocks and checksums."""
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python tests/readme_blocks.py --write")
    from dflash_doctor.tinypair.build import write_checksums

    text = README.read_text(encoding="utf-8")
    for name, content in blocks().items():
        text = replace_block(text, name, content)
    README.write_text(text, encoding="utf-8")
    guide = replace_block(CONTRIBUTING.read_text(encoding="utf-8"), "static-modes", static_modes())
    CONTRIBUTING.write_text(guide, encoding="utf-8")
    write_checksums(ROOT / "fixtures" / "tiny_pair")
    write_checksums(ROOT / "fixtures")


if __name__ == "__main__":
    main()
