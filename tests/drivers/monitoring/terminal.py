"""A terminal of its own for a program, held by tmux: what a person would see, and keys as a person would press them."""

import os
import pathlib
import subprocess
import time

SECONDS_MAX = 20


class Terminal:
    """Runs `command` until it ends or the block does."""

    def __init__(self, directory, command, columns=130, rows=40):
        self.directory = pathlib.Path(directory)
        self.ended = self.directory / "ended"
        size = ["-x", str(columns), "-y", str(rows)]
        shell = ["sh", "-c", '"$@"; echo $? > "$0"', str(self.ended), *command]
        self.tmux("-f", os.devnull, "new-session", "-d", "-s", "seen", *size, *shell)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server", check=False)

    def tmux(self, *arguments, check=True):
        command = ["tmux", "-u", "-S", str(self.directory / "tmux"), *arguments]
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        environment.pop("TMUX", None)
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20, env=environment)
        assert ran.returncode == 0 or not check, ran.stderr
        return ran.stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "seen")

    def wait_for(self, is_shown):
        """The first screen that is as wanted."""
        deadline = time.monotonic() + SECONDS_MAX
        while not is_shown(screen := self.screen()):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen

    def press(self, key):
        self.tmux("send-keys", "-t", "seen", key)

    def exit_code(self):
        deadline = time.monotonic() + SECONDS_MAX
        while not (self.ended.exists() and self.ended.read_text()):
            assert time.monotonic() < deadline, self.screen()
            time.sleep(0.05)
        return int(self.ended.read_text())
