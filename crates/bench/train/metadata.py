"""Train and cross-validate the models of authors and days."""
import re
import unicodedata

import lightgbm as lgb
import numpy as np

FOLDS = 5
WORD = re.compile(r"\w+")
SPLIT = re.compile(r"\s*(?:;|,|\band\b|\bund\b|\bet\b|&|\||\n)\s*")
VOTE = dict(
    objective="binary", num_leaves=8, max_depth=5, learning_rate=0.1, min_data_in_leaf=15, lambda_l2=3, verbose=-1,
    num_threads=1, feature_fraction=0.6, seed=3,
)
DAY_ROUNDS, AUTHOR_ROUNDS = 120, 80
THRESHOLDS = (-2.5, -2.0, -1.5, -1.2, -0.8, -0.4, 0.0)


def norm(text):
    return " ".join(WORD.findall(unicodedata.normalize("NFKC", text or "").casefold()))


def names(value):
    """The names of an author field, as the scoring tool sees them."""
    value = "; ".join(map(str, value)) if isinstance(value, list) else (value or "")
    parts = (re.sub(r"^(by|von|par|por|od|da) ", "", norm(part)) for part in SPLIT.split(value))
    return {part for part in parts if part}


def day(value):
    found = re.match(r"\d{4}-\d\d-\d\d", str(value or ""))
    return found and found.group(0)


def fit(examples, rounds, **changes):
    X = np.concatenate([rows for rows, _ in examples])
    y = np.concatenate([labels for _, labels in examples]).astype(float)
    return lgb.train(dict(VOTE, **changes), lgb.Dataset(X, label=y), rounds)


def days(pages):
    """Pages with a known day: rows, labels and the page."""
    known = []
    for page in pages:
        gold = day(page.truth.get("date"))
        if gold:
            rows = np.array(page.told["day_rows"], np.float32)
            known.append((page, rows, np.array([one == gold for one in page.told["days"]]), gold))
    return known


def authors(pages):
    known = []
    for page in pages:
        gold = names(page.truth.get("author"))
        if gold:
            found = [names(one) for one in page.told["authors"]]
            good = [2 * len(gold & one) / max(1, len(gold) + len(one)) > 0.6 for one in found]
            known.append((page, np.array(page.told["author_rows"], np.float32), np.array(good), (gold, found)))
    return known


def out_of_fold(known, rounds, **changes):
    """Scores of the candidates of each page by a model that did not see its domain."""
    scores = {}
    for fold in range(FOLDS):
        train = [(rows, labels) for page, rows, labels, _ in known if page.fold != fold and len(rows)]
        model = fit(train, rounds, **changes)
        for page, rows, _, _ in known:
            if page.fold == fold and len(rows):
                scores[page.corpus, page.id] = model.predict(rows, raw_score=True)
    return scores


def report_days(name, known, scores):
    out = {}
    for page, _, labels, gold in known:
        score = scores.get((page.corpus, page.id))
        right = score is not None and bool(labels[int(np.argmax(score))])
        out.setdefault(page.corpus, []).append((right, bool(len(labels)) and bool(labels.any())))
    print(name, {c: f"{np.mean([r for r, _ in v]):.4f} of {np.mean([p for _, p in v]):.4f}" for c, v in out.items()})


def report_authors(name, known, scores):
    for threshold in THRESHOLDS:
        out = {}
        for page, _, _, (gold, found) in known:
            score = scores.get((page.corpus, page.id))
            said = set()
            if score is not None and score.max() > threshold:
                said = found[int(np.argmax(score))]
            count = out.setdefault(page.corpus, [0, 0, 0])
            count[0] += len(gold & said)
            count[1] += len(said - gold)
            count[2] += len(gold - said)
        f = {c: f"{2 * a / max(1, 2 * a + b + d):.4f}" for c, (a, b, d) in out.items()}
        print(name, threshold, f)


def train(columns, pages, out, write_table):
    known = days(pages)
    report_days("days", known, out_of_fold(known, DAY_ROUNDS))
    people = authors(pages)
    report_authors("authors", people, out_of_fold(people, AUTHOR_ROUNDS))
    if out:
        write_table(
            out / "dates.txt", fit([k[1:3] for k in known if len(k[1])], DAY_ROUNDS), columns["days"],
            "Whether a day is the article's.",
        )
        write_table(
            out / "authors.txt", fit([k[1:3] for k in people if len(k[1])], AUTHOR_ROUNDS), columns["authors"],
            "Whether names are those of the authors.",
        )
