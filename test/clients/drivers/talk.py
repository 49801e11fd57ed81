"""Takes a call a line as JSON from standard input, and answers each with a line: {"ok": ...} or {"error": ...}."""

import json
import sys


def talk(handlers):
    # The client's own output is redirected: standard output is for the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer = {"ok": handlers[call.pop("do")](**call)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
