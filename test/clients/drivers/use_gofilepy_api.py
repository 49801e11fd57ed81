"""gofilepy-api is a library of objects: this keeps them by the id of their content."""

from gofilepy import GofileClient
from talk import talk

client = None
kept = {}


def connect(token=None, zone="na"):
    global client
    client = GofileClient(token=token, zone=zone)
    return {"server": client.server, "root": client.account.root_id if token else None}


def keep(content):
    kept[content.content_id] = content
    return content._raw


def upload(path, folder=None):
    return keep(kept[folder].upload(path=path) if folder else client.upload(path=path))


def create_folder(name, parent):
    return keep(client.create_folder(name, parent))


def get(content):
    return keep(client.get(content))


def children(content):
    return [child.name for child in client.get(content).children]


def set_option(content, option, value):
    kept[content].set_option(option, value)
    return kept[content]._raw


def reload(content):
    kept[content].reload()
    return kept[content]._raw


def copy(content, folder):
    kept[content].copy_to(folder)


def delete(content):
    kept[content].delete()


def download(content, folder, **options):
    kept[content].create_direct_link(**options)
    return kept[content].download(out_dir=folder)


talk(
    {
        handler.__name__: handler
        for handler in (connect, upload, create_folder, get, children, set_option, reload, copy, delete, download)
    }
)
