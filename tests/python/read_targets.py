"""Reads what sinks and exports left, as the users of each target would.

Usage: read_targets.py WHAT PLACE URLS

WHAT is redis (PLACE is the server's address; the keys are those of the canonical fetcher), newsfed (PLACE
is its directory), ndjson (the directory of the sink), csv, jsonl or sqlite (an exported file). URLS is a
file with the address of every article, one a line. Prints one line per finding and exits 1 when there
is any.
"""

import csv
import hashlib
import json
import sqlite3
import stat
import sys
import uuid
from datetime import datetime
from pathlib import Path


def main(what, place, urls):
    urls = set(Path(urls).read_text().split())
    findings = []
    READERS[what](place, urls, findings)
    for finding in findings:
        print(finding)
    print(f"{what}: {len(urls)} articles wanted, {len(findings)} findings")
    return 1 if findings else 0


def compare(found, urls, findings):
    findings.extend(f"missing: {url}" for url in sorted(urls - set(found)))
    findings.extend(f"unknown: {url}" for url in sorted(set(found) - urls))
    if len(found) != len(set(found)):
        findings.append("something is there twice")


def read_redis(place, urls, findings):
    import redis

    server = redis.Redis.from_url(place, decode_responses=True)
    links = {
        url
        for key in server.scan_iter("rss:category_links:*", _type="set")
        for url in server.smembers(key)
    }
    attempted = server.smembers("rss:canonical_attempted")
    found = []
    for link in links:
        # What the canonical fetcher does before it would fetch anything.
        uid = hashlib.sha1(link.encode()).hexdigest()[:16]
        article = server.hgetall(f"rss:article_canonical:{uid}")
        if not article:
            findings.append(f"{link}: feeds have it, and there is no article")
            continue
        found.append(article["url"])
        if uid not in attempted:
            findings.append(f"{uid}: it is not among those that were tried")
        if article["uid"] != uid or article["status"] != "success":
            findings.append(f"{uid}: {article['uid']} {article['status']}")
        if int(article["text_len"]) != len(article["clean_text"]):
            findings.append(f"{uid}: its text is not as long as it says")
        if int(article["raw_len"]) <= 0 or float(article["fetched_ts"]) <= 0:
            findings.append(f"{uid}: {article['raw_len']} {article['fetched_ts']}")
        # Redis tells time by its own clock, and that of a simulation runs ahead by some hours.
        if not 6 * 86400 < server.ttl(f"rss:article_canonical:{uid}") < 8 * 86400:
            findings.append(f"{uid}: it does not go after seven days")
        if not server.sismember(f"rss:articles_by_category:{article['category']}", uid):
            findings.append(f"{uid}: it is not in {article['category']}")
        if server.zscore("rss:article_canonical_index", uid) is None:
            findings.append(f"{uid}: it is not in the index")
    compare(found, urls, findings)


def read_newsfed(place, urls, findings):
    directory = Path(place)
    if stat.S_IMODE(directory.stat().st_mode) != 0o700:
        findings.append("the directory is open to others")
    found = []
    for path in directory.glob("*.json"):
        item = json.loads(path.read_text())
        if uuid.UUID(item["id"]).version != 4 or path.stem != item["id"]:
            findings.append(f"{path.name}: {item['id']} is not its id")
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            findings.append(f"{path.name}: it is open to others")
        for name, kind in {"title": str, "summary": str, "url": str, "authors": list}.items():
            if not isinstance(item[name], kind):
                findings.append(f"{path.name}: {name}")
        if not item["title"] or len(item["summary"]) > 500 or item["pinned_at"] is not None:
            findings.append(f"{path.name}: title, summary or pin")
        for name in ("published_at", "discovered_at"):
            datetime.fromisoformat(item[name])
        uuid.UUID(item["source_id"])
        found.append(item["url"])
    compare(found, urls, findings)


def read_ndjson(place, urls, findings):
    last, found = 0, {}
    for path in sorted(Path(place, "articles").glob("*.ndjson")):
        for line in path.read_text().splitlines():
            article = json.loads(line)
            if article["event"]["seq"] <= last:
                findings.append(f"{path.name}: {last} before {article['event']['seq']}")
            last = article["event"]["seq"]
            found[article["id"]] = article["url"]
            if not article["sources"] or not article["text"]:
                findings.append(f"{article['url']}: no source or no text")
    compare(list(found.values()), urls, findings)


def read_csv(place, urls, findings):
    with open(place, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    check_rows(rows, urls, findings)


def read_jsonl(place, urls, findings):
    check_rows([json.loads(line) for line in Path(place).read_text().splitlines()], urls, findings)


def read_sqlite(place, urls, findings):
    connection = sqlite3.connect(place)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute("SELECT * FROM article")]
    check_rows(rows, urls, findings)


def check_rows(rows, urls, findings):
    for row in rows:
        if int(row["word_count"]) <= 0 or not row["text"] or not row["source"]:
            findings.append(f"{row['url']}: no words, text or source")
    compare([row["url"] for row in rows], urls, findings)


READERS = {
    "redis": read_redis,
    "newsfed": read_newsfed,
    "ndjson": read_ndjson,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "sqlite": read_sqlite,
}

if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in READERS:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
