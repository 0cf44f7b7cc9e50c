"""Reads what a run left behind as a stranger would: the NDJSON lines and the archive.

Usage: read_ndjson.py DATA_DIR [REPORT]

Every line below DATA_DIR/out must be JSON with the fields that readers count on, no event may
appear twice, nothing may be new twice, and the page of every article must be in DATA_DIR/archive
under the fetch that the line names. REPORT is the output of `feedmill demo --json`; its count of
articles must be the number found here. Prints one line per finding and exits 1 when there is any.
"""

import json
import sys
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

# Fields that readers count on, and the type of their values.
EVENT = {"seq": int, "at": str, "kind": str}
COMMON = {"id": str, "content_hash": str, "first_seen": str, "last_seen": str, "fetch": str, "event": dict}
FIELDS = {
    "entries": COMMON | {"feed_id": str, "uid": str, "seen_count": int, "authors": list},
    "articles": COMMON | {"task_id": str, "url": str, "text": str, "revision": int, "word_count": int},
}
KINDS = {
    "entries": {"entry.new", "entry.updated", "entry.deleted"},
    "articles": {"article.new", "article.updated", "article.duplicate"},
}


def main(data_dir, report=None):
    findings = []
    lines = {folder: list(read_lines(data_dir / "out" / folder, findings)) for folder in FIELDS}
    for folder, rows in lines.items():
        if not rows:
            findings.append(f"{folder}: there is nothing")
        for where, row in rows:
            check_row(folder, where, row, findings)
    sound = {
        folder: [(where, row) for where, row in rows if not missing(row, FIELDS[folder])]
        for folder, rows in lines.items()
    }
    check_once(sound, findings)
    pages = read_pages(data_dir / "archive", findings)
    for where, article in sound["articles"]:
        check_page(where, article, pages, findings)
    articles = {article["id"] for _, article in sound["articles"]}
    if report is not None:
        check_report(report, articles, findings)
    for finding in findings:
        print(finding)
    print(
        f"{len(lines['entries'])} lines of entries, {len(lines['articles'])} of articles, "
        f"{len(articles)} articles, {len(pages)} archived answers, {len(findings)} findings"
    )
    return 1 if findings else 0


def read_lines(folder, findings):
    for path in sorted(folder.glob("*.ndjson")):
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            where = f"{folder.name}/{path.name}:{number}"
            if not line.endswith(b"\n"):
                findings.append(f"{where}: the line is torn")
            try:
                row = json.loads(line)
            except ValueError as error:
                findings.append(f"{where}: not JSON: {error}")
                continue
            if isinstance(row, dict):
                yield where, row
            else:
                findings.append(f"{where}: not an object")


def missing(row, fields):
    wrong = [name for name, kind in fields.items() if not isinstance(row.get(name), kind)]
    event = row.get("event")
    if isinstance(event, dict):
        wrong += [f"event.{name}" for name, kind in EVENT.items() if not isinstance(event.get(name), kind)]
    return wrong


def check_row(folder, where, row, findings):
    wrong = missing(row, FIELDS[folder])
    if wrong:
        findings.append(f"{where}: missing or of the wrong type: {', '.join(wrong)}")
        return
    if row["event"]["kind"] not in KINDS[folder]:
        findings.append(f"{where}: {row['event']['kind']} does not belong here")
    for name in ("id", "content_hash"):
        if len(row[name]) != 64 or set(row[name]) - set("0123456789abcdef"):
            findings.append(f"{where}: {name} is not 64 hex digits")
    if folder == "articles" and not row["text"].strip():
        findings.append(f"{where}: the article has no text")


def check_once(lines, findings):
    """No event twice, nothing new twice."""
    events, born = set(), set()
    for folder, rows in lines.items():
        for where, row in rows:
            kind, seq = row["event"]["kind"], row["event"]["seq"]
            once(events, seq, f"{where}: event {seq} is there twice", findings)
            if not kind.endswith((".updated", ".deleted")):
                once(born, (folder, row["id"]), f"{where}: {row['id']} is new twice", findings)


def once(seen, key, finding, findings):
    if key in seen:
        findings.append(finding)
    seen.add(key)


def read_pages(folder, findings):
    """Answers in the archive by the name of their fetch: address, status and size once decoded."""
    pages = {}
    for path in sorted(folder.iterdir()):
        if not path.name.endswith(".warc.gz"):
            findings.append(f"{path.name}: left in the archive, but it is no closed segment")
            continue
        with path.open("rb") as segment:
            for record in ArchiveIterator(segment):
                if record.rec_type not in ("response", "revisit"):
                    continue
                name = record.rec_headers.get_header("WARC-Record-ID").removeprefix("<urn:uuid:").removesuffix(">")
                uri = record.rec_headers.get_header("WARC-Target-URI")
                status = record.http_headers.get_statuscode()
                size = len(record.content_stream().read())
                if record.rec_type == "revisit":
                    # Its payload stands before it, in the same segment.
                    first = record.rec_headers.get_header("WARC-Refers-To").removeprefix("<urn:uuid:").removesuffix(">")
                    if first not in pages:
                        findings.append(f"{path.name}: {name} refers to {first}, which is not there")
                        continue
                    size = pages[first][2]
                pages[name] = (uri, status, size)
    return pages


def check_page(where, article, pages, findings):
    page = pages.get(article["fetch"])
    if page is None:
        findings.append(f"{where}: fetch {article['fetch']} is not in the archive")
        return
    uri, status, size = page
    if uri != article["url"]:
        findings.append(f"{where}: the archive has {uri} for it, the article {article['url']}")
    if status != "200" or size < len(article["text"]):
        findings.append(f"{where}: status {status} and {size} bytes in the archive cannot be its page")


def check_report(report, articles, findings):
    told = json.loads(report.read_text())["articles"]
    if told != len(articles):
        findings.append(f"the report tells of {told} articles, the lines of {len(articles)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*map(Path, sys.argv[1:])))
