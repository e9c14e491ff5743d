"""`quarry top` on a terminal that tmux holds, over a live load: the numbers move and agree with the command's."""

import re
import subprocess

import pytest
from pymongo import MongoClient

from quarry_process import binary
from terminal import Terminal


def line_of(screen, word):
    return next((line for line in screen.splitlines() if line.startswith(word)), "")


def rate(screen, operation):
    words = line_of(screen, operation).split()
    return float(words[1]) if len(words) > 1 else 0.0


def test_top_shows_a_live_load(server, load, tmp_path):
    command = [binary(), "top", "--port", str(server.port), "--interval", "0.3"]
    with MongoClient(server.uri) as client, Terminal(tmp_path, command) as terminal:
        with load():
            first = terminal.wait_for(lambda screen: rate(screen, "insert") > 0 and "shop.things" in screen)
            assert "q quits" in first and "█" in line_of(first, "insert")
            terminal.wait_for(lambda screen: rate(screen, "insert") not in (0.0, rate(first, "insert")))
            counted = lambda screen: int(line_of(screen, "shop.things").split()[1])
            terminal.wait_for(lambda screen: counted(screen) > counted(first))
        terminal.wait_for(lambda screen: rate(screen, "insert") == 0.0)
        assert agrees(terminal, client), terminal.screen()
        terminal.press("q")
        assert terminal.exit_code() == 0


def agrees(terminal, client):
    """Whether the shown quantiles and counts are those of getOpTiming; a window may have moved in between."""
    for _ in range(50):
        shown = terminal.screen()
        timing = client.admin.command("getOpTiming", window="lastMinute", collections=True)
        wall = timing["operations"]["insert"]["phases"]["wall"]
        count = next(entry["count"] for entry in timing["collections"] if entry["ns"] == "shop.things")
        median = line_of(shown, "insert").split()[2]
        if median == f"{wall['p50Micros']:.1f}" and line_of(shown, "shop.things").split()[1] == str(count):
            return True
    return False


def test_top_without_a_server_says_so(tmp_path):
    with Terminal(tmp_path, [binary(), "top", "--port", "1", "--interval", "0.3"]) as terminal:
        assert terminal.exit_code() == 1


def test_top_without_a_terminal_names_what_needs_none(server):
    ended = subprocess.run([binary(), "top", "--port", str(server.port)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and "--once" in ended.stderr and ended.stdout == ""


@pytest.mark.parametrize("columns, rows", [(40, 10), (250, 60)])
def test_top_fits_any_terminal(server, load, tmp_path, columns, rows):
    command = [binary(), "top", "--port", str(server.port), "--interval", "0.3"]
    with load(), Terminal(tmp_path, command, columns, rows) as terminal:
        # The smaller one has room for one kind of operation: for the one that is most frequent just then.
        shown = terminal.wait_for(lambda screen: "insert" in screen or "find" in screen)
        assert all(len(line) <= columns for line in shown.splitlines())
        terminal.press("Escape")
        assert terminal.exit_code() == 0


def test_top_pauses_filters_and_needs_no_colours(server, load, tmp_path):
    command = ["env", "NO_COLOR=1", binary(), "top", "--port", str(server.port), "--interval", "0.3"]
    with load(), Terminal(tmp_path, command) as terminal:
        terminal.wait_for(lambda screen: rate(screen, "insert") > 0 and "find" in screen)
        # Without colours the layers have signs of their own, and nothing is painted.
        painted = re.compile(r"\x1b\[(\d+;)*(3[0-7]|9[0-7])(;\d+)*m")
        assert not painted.search(terminal.tmux("capture-pane", "-p", "-e", "-t", "seen"))
        terminal.press("h")
        terminal.wait_for(lambda screen: "pause and go on" in screen)
        terminal.press("h")
        for key in ("/", "i", "n", "s", "Enter"):
            terminal.press(key)
        terminal.wait_for(lambda screen: "filter: ins" in screen and line_of(screen, "insert") and not line_of(screen, "find "))
        terminal.press("p")
        paused = terminal.wait_for(lambda screen: "paused" in screen)
        terminal.press("p")
        terminal.wait_for(lambda screen: "paused" not in screen and line_of(screen, "insert") != line_of(paused, "insert"))
        terminal.press("q")
        assert terminal.exit_code() == 0
