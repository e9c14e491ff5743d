"""docs/works-with.md and the tests of tools say the same: a row for each test, with the first line of its docstring, and no other row."""

import ast
import pathlib
import re

HERE = pathlib.Path(__file__).parent
DRIVERS = HERE.parent
TABLE = DRIVERS.parents[1] / "docs" / "works-with.md"
HEADER = ["tool", "language", "what the test does", "what does not work"]
NAME = re.compile(r"\[([^]]+)\]\(https://[^)]+\)")
# Tested elsewhere than here: what the tool does is the first line of the file, which a suite of run.sh runs.
ELSEWHERE = {"mongodb_memory_server_core": "memory_server.test.mjs"}


def rows() -> list[list[str]]:
    """The cells of each line of the table, the header first."""
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def tool(cell: str) -> str:
    """A tool's name as its test has it: `[@nestjs/mongoose](...)` is `nestjs_mongoose`."""
    named = NAME.fullmatch(cell)
    assert named, f"no name with an address: {cell}"
    return re.sub("[^a-z0-9]+", "_", named[1].lower()).strip("_")


def rows_of_table() -> dict[str, str]:
    found = {}
    for name, _, does, _ in rows()[1:]:
        assert tool(name) not in found, f"{name} has two rows"
        found[tool(name)] = does
    return found


def rows_of_tests() -> dict[str, str]:
    """What each test's docstring says first, by its tool."""
    found = {}
    for path in sorted(HERE.glob("test_*_tools.py")):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                name, said = function.name.removeprefix("test_"), ast.get_docstring(function)
                assert said, f"{path.name}: {function.name} has no docstring"
                assert name not in found, f"{name} is tested twice"
                found[name] = said.splitlines()[0]
    for name, file in ELSEWHERE.items():
        found[name] = (DRIVERS / file).read_text().splitlines()[0].removeprefix("// ")
    return found


def test_every_test_has_its_row_and_every_row_its_test():
    assert rows_of_table() == rows_of_tests()


def test_every_cell_says_something():
    header, *others = rows()
    assert header == HEADER
    assert [row for row in others if len(row) != len(HEADER) or not all(row)] == []


def test_what_is_tested_elsewhere_is_run():
    runner = (DRIVERS / "run.sh").read_text()
    assert [file for file in ELSEWHERE.values() if f"$here/{file}" not in runner] == []
