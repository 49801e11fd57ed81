"""megaloader lists the files behind a link; the download is up to the program that uses it."""

import hashlib

import requests
from megaloader import extract
from talk import talk


def load(url, **options):
    files = []
    for item in extract(url, **options):
        answer = requests.get(item.download_url, headers=dict(getattr(item, "headers", None) or {}))
        answer.raise_for_status()
        digest = hashlib.md5(answer.content).hexdigest()
        files.append({"name": item.filename, "size": item.size_bytes, "md5": digest, "folder": item.collection_name})
    return files


talk({"load": load})
