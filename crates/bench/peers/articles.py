#!/usr/bin/env python3
"""CPU time of trafilatura on the pages of corpora, beside `feedmill-bench extract --pages DIR`.

    python3 -m venv peers && peers/bin/pip install trafilatura lxml_html_clean
    peers/bin/python crates/bench/peers/articles.py DIR... [--every N]

A directory holds pages/ID.html or .html.gz, and truth.json with the address of each. Text and metadata
are asked for, as ours gives them. Every page is read twice and its better time counts; --every N reads
every Nth page only.
"""
import gzip
import json
import sys
import time
from pathlib import Path

import trafilatura


def pages(directory, step):
    truth = json.load(open(directory / "truth.json")) if (directory / "truth.json").exists() else {}
    inner = directory / "pages" if (directory / "pages").is_dir() else directory
    for path in sorted(inner.glob("*.html*"))[::step]:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        known = truth.get(path.name.split(".html")[0], {})
        yield data.decode("utf-8", "replace"), known.get("url")


def cpu_ms(html, url):
    began = time.process_time()
    trafilatura.bare_extraction(html, url=url, with_metadata=True)
    return (time.process_time() - began) * 1e3


def main():
    args, step = sys.argv[1:], 1
    if "--every" in args:
        at = args.index("--every")
        step = int(args[at + 1])
        del args[at : at + 2]
    if not args:
        sys.exit(__doc__)
    times = [min(cpu_ms(*page), cpu_ms(*page)) for arg in args for page in pages(Path(arg), step)]
    times.sort()
    at = lambda part: round(times[round((len(times) - 1) * part)], 2)
    print(json.dumps({
        "peer": f"trafilatura {trafilatura.__version__}", "pages": len(times), "ms_median": at(0.5),
        "ms_p95": at(0.95), "max_ms": at(1), "ms_mean": round(sum(times) / len(times), 2),
    }))


if __name__ == "__main__":
    main()
