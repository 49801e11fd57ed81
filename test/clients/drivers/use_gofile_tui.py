"""
gofile-tui is for a terminal: this gives it one and presses the keys. Space starts the uploads; when the list of links has grown by as many
lines as there are files, q and y end it.

usage: use_gofile_tui.py <program> <number of files> <arguments of the program>
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path

DEADLINE_SECONDS = 90

program, expected, *arguments = sys.argv[1:]
links = Path("gofile-files/gofile.txt")
screen = b""


def count():
    return len(links.read_text(encoding="utf-8").splitlines()) if links.is_file() else 0


child, terminal = pty.fork()
if child == 0:
    os.execv(program, [program, *arguments])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))


def look(seconds):
    """What it draws is read all the time: a full terminal would block it. False: it ended."""
    global screen
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                screen = (screen + os.read(terminal, 65536))[-20000:]
            except OSError:
                return False
    return True


def fail(why):
    os.kill(child, 9)
    sys.exit(f"{why}\n{screen.decode('utf-8', 'replace')}")


deadline = time.monotonic() + DEADLINE_SECONDS
started = False
while count() < int(expected):
    if not look(0.2):
        fail("it ended before all was uploaded")
    if time.monotonic() > deadline:
        fail(f"{count()} of {expected} uploaded after {DEADLINE_SECONDS} s")
    if not started and screen:
        os.write(terminal, b" ")
        started = True
os.write(terminal, b"q")
look(0.5)
os.write(terminal, b"y")
while look(0.2):
    if time.monotonic() > deadline:
        fail("it does not end")
_, status = os.waitpid(child, 0)
print(links.read_text(encoding="utf-8"))
sys.exit(os.waitstatus_to_exitcode(status))
