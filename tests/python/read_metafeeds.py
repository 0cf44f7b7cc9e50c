"""Reads all pages of the feeds of articles with feedparser, as somebody else's reader would.

Usage: read_metafeeds.py BASE_URL ARTICLES
"""

import json
import sys
import urllib.request

import feedparser


def pages(url):
    """All pages of a feed, by its links of RFC 5005."""
    while url:
        page = feedparser.parse(url)
        assert not page.bozo, (url, page.get("bozo_exception"))
        assert page.feed.title, url
        yield page
        url = next((link.href for link in page.feed.links if link.rel == "next"), None)


def entries(url):
    found = [entry for page in pages(url) for entry in page.entries]
    assert all(entry.title and entry.link and entry.published_parsed for entry in found), url
    return [entry.link for entry in found]


def items(url):
    """The same of a JSON Feed, which feedparser does not know."""
    found = []
    while url:
        with urllib.request.urlopen(url) as answer:
            page = json.load(answer)
        assert page["version"] == "https://jsonfeed.org/version/1.1"
        assert all(item["id"] and "content_text" in item for item in page["items"])
        found += [item["url"] for item in page["items"]]
        url = page.get("next_url")
    return found


def main():
    base, count = sys.argv[1], int(sys.argv[2])
    atom, rss = entries(f"{base}/articles.atom?limit=5"), entries(f"{base}/articles.rss?limit=5")
    assert len(atom) == len(set(atom)) == count, (len(atom), count)
    assert atom == rss == items(f"{base}/articles.json?limit=5")
    unchanged = feedparser.parse(f"{base}/articles.atom", etag=feedparser.parse(f"{base}/articles.atom").etag)
    assert unchanged.status == 304, unchanged.status
    print(f"{count} articles in each of three feeds")


main()
