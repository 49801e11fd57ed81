"""gofile2 is a library: this calls its methods by name."""

from gofile2 import Sync_Gofile
from talk import talk

token = None


def use(value):
    global token
    token = value


def call(method, **arguments):
    with Sync_Gofile(token) as client:
        return getattr(client, method)(**arguments)


talk({"use": use, "call": call})
