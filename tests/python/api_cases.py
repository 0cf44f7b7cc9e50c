"""Asks the API what its own document says that it can be asked, and whether the answers are as promised.

    api_cases.py FEEDMILL DATA_DIR

starts the program on a directory that has something in it, and lets schemathesis ask: with a token that
may do everything, and without one. Nothing leaves the machine: whatever is fetched goes to a proxy that
is not there. Ends with 0 when no answer was a server's error, unknown to the document, or of another form.
"""

import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

# Cases of each operation that are made up, beside those that cover its parameters one by one.
WITH_TOKEN = 15
WITHOUT = 2
LEAST = 1000
SEED = 10
CHECKS = ",".join(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "unsupported_method",
        "missing_required_header",
    ]
)
# It never ends: tests/it/api/follow.rs reads it.
ENDLESS = "/api/v1/events/stream"
# What cannot go well here (the only sink is configured, so that it is not forgotten), and what was read
# before all others.
BARRED = (ENDLESS, "/api/v1/sinks/{name}", "/openapi.json")
# What somebody would ask and say who means it. Looking around for feeds takes its time: once is enough,
# and then addresses that are refused.
MEANT = {
    "POST /api/v1/feeds": {"body": {"url": "https://feed-NUMBER.example/feed"}},
    "POST /api/v1/frontier/delete": {"body": {"status": ["dead"], "dry_run": True}},
    "POST /api/v1/frontier/retry": {"body": {"status": ["dead"]}},
    "POST /api/v1/sources": {"body": {"url": "https://NUMBER.example/", "mode": "spider"}},
    "POST /api/v1/sources/import": {"type": "text/plain", "body": "https://NUMBER.example/feed"},
    "POST /api/v1/takedowns": {"body": {"what": "gone.example", "why": "asked to"}},
    "POST /api/v1/sources/discover": {
        "body": {"url": "https://NUMBER.example/"},
        "then": {"body": {"url": "https://127.0.0.1/"}},
    },
    "PUT /api/v1/config/{key}": {"body": {"value": "NUMBERm"}},
}
# Lists whose items are there, and what they are known by.
LISTS = {
    "sources": "id",
    "feeds": "id",
    "entries": "id",
    "articles": "id",
    "fetches": "id",
    "frontier": "id",
    "hosts": "name",
    "sinks": "name",
}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """The program, serving a directory."""

    def __init__(self, program, directory, log):
        self.command = [program, "--data-dir", directory]
        made = self.run("token", "create", f"cases {os.getpid()}", "--scope", "admin", "--json")
        self.token = json.loads(made)["token"]
        self.url = f"http://127.0.0.1:{free_port()}"
        settings = {
            "api.listen": self.url.removeprefix("http://"),
            "api.open_on_loopback": "false",
            "api.rate_limit": "0",
            "fetch.proxy": f"http://127.0.0.1:{free_port()}",
            "log.level": "warn",
        }
        pairs = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        command = [*self.command, "run", *pairs]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment())

    @staticmethod
    def environment():
        """Without the variables that only its tests know."""
        return {key: value for key, value in os.environ.items() if not key.startswith("FEEDMILL_")}

    def run(self, *arguments):
        command = [*self.command, *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=self.environment())
        return done.stdout

    def wait(self):
        for _ in range(300):
            if self.process.poll() is not None:
                sys.exit("the server did not start")
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        sys.exit("the server does not answer")

    def get(self, path):
        request = urllib.request.Request(self.url + path)
        request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def there(server):
    """What can be asked for, by path and parameter."""
    ids = {}
    for name, key in LISTS.items():
        items = server.get(f"/api/v1/{name}")["items"]
        if items:
            ids[name] = [str(item[key]) for item in items]
    document = server.get("/openapi.json")
    paths = {}
    for path in document["paths"]:
        name = path.removeprefix("/api/v1/").split("/")[0]
        for parameter in ("id", "uid", "name"):
            if name in ids and f"/{name}/{{{parameter}}}" in path:
                paths.setdefault(path.removeprefix("/api/v1"), {})[parameter] = ids[name]
    paths["/articles/{id}/revisions/{revision}"]["revision"] = [1, 2]
    paths["/config/{key}"] = {"key": ["schedule.default_interval"]}
    paths["/takedowns/{what}"] = {"what": ["gone.example"]}
    MEANT["GET /api/v1/explain"] = {"query": {"q": ids["hosts"][0]}}
    return paths, document


def ask(server, paths, scratch, *arguments):
    """Lets schemathesis ask; whether all was well, and how it was answered."""
    cases = scratch / "cases.json"
    cases.write_text(json.dumps({"paths": paths, "meant": MEANT}))
    hooks = pathlib.Path(__file__).with_name("api_hooks.py")
    environment = {
        **os.environ,
        "FEEDMILL_CASES": str(cases),
        "SCHEMATHESIS_HOOKS": hooks.stem,
        "PYTHONPATH": str(hooks.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
        *("--checks", CHECKS, "--exclude-path", ENDLESS, "--seed", str(SEED), "--no-color"),
        *("--generation-database", "none", "--suppress-health-check", "all"),
        *("--request-timeout", "90", "--continue-on-failure", "--warnings", "off", *arguments),
    ]
    done = subprocess.run(command, cwd=scratch, env=environment, check=False)
    answers = collections.Counter(json.loads(cases.read_text()).get("answers", {}))
    return done.returncode == 0, answers


def told(what, answers):
    classes = collections.Counter()
    for answer, count in answers.items():
        classes[answer.split()[-1]] += count
    by_status = ", ".join(f"{count} × {status}" for status, count in sorted(classes.items()))
    print(f"{what}: {answers.total()} cases: {by_status}", flush=True)


def main():
    program, directory = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        with open(scratch / "server.log", "w+b") as log:
            server = Server(program, directory, log)
            try:
                server.wait()
                fine = judge(server, scratch)
            finally:
                ended = server.stop()
            log.seek(0)
            said = log.read().decode(errors="replace")
    if not fine or ended != 0 or "panicked" in said:
        print(said[-10000:])
        sys.exit(f"the API is not what it says, or ended badly ({ended})")


def judge(server, scratch):
    paths, document = there(server)
    # Without a token first: with one, everything may be gone afterwards.
    without, answers = ask(server, paths, scratch, "--phases", "fuzzing", "-n", str(WITHOUT))
    told("without a token", answers)
    token = f"Authorization: Bearer {server.token}"
    phases = ("--phases", "examples,coverage,fuzzing", "-n", str(WITH_TOKEN))
    within, answers = ask(server, paths, scratch, "-H", token, *phases)
    told("with a token", answers)
    fine = without and within
    if answers.total() < LEAST:
        print(f"only {answers.total()} cases, not {LEAST}")
        fine = False
    # Every operation was answered as it is meant to be, at least once.
    for path, item in document["paths"].items():
        for method, operation in item.items():
            good = [status for status in operation["responses"] if status.startswith("2")]
            asked = [f"{method.upper()} {path} {status}" for status in good]
            if path not in BARRED and not any(answers[one] for one in asked):
                print(f"never went well: {method.upper()} {path}")
                fine = False
    return fine


if __name__ == "__main__":
    main()
