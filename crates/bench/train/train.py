#!/usr/bin/env python3
r"""Train the article models and write its tables; without --out, only cross-validate.

    cargo run --release -p feedmill-bench -- features CORPUS... --out FEATURES
    python3 crates/bench/train/train.py FEATURES CORPUS... [--thorough | --metadata] \
        [--out crates/formats/src/article/model]

Needs numpy, lightgbm and scikit-learn. A corpus is a directory with pages/ and truth.json: {id: {url,
articleBody, with, without, author, date}}. Folds are disjoint by registrable domain, and what is
reported was predicted for pages of domains that were not in training. --thorough tries other seeds and
training without each corpus, --metadata leaves the body's models alone.
"""
import json
import re
import sys
import zlib
from collections import Counter
from pathlib import Path

import lightgbm as lgb
import numpy as np

import metadata

WORD = re.compile(r"\w+")
FOLDS = 5
BLOCK = dict(
    objective="cross_entropy", learning_rate=0.1, num_leaves=31, max_depth=6, max_bin=63, min_data_in_leaf=40,
    feature_fraction=0.4, bagging_fraction=0.8, bagging_freq=1, lambda_l2=5, verbose=-1, num_threads=1, seed=1,
)
BLOCK_ROUNDS = 100
RANKER = dict(
    objective="regression", learning_rate=0.06, num_leaves=15, max_depth=5, max_bin=63, min_data_in_leaf=20,
    feature_fraction=0.5, bagging_fraction=0.8, bagging_freq=1, lambda_l2=5, verbose=-1, num_threads=1, seed=2,
)
RANKER_ROUNDS = 150
# Of the blocks that are mostly links and no article, this part is learned from.
EASY = 0.3
RANKING = ["r0in", "r0s", "r0d"]
ACCEPT, EDGE, DESPERATE = 0.57, 0.63, 0.25
AGAINST = "share related comment nav footer side ad news cookie hide author tags caption".split()


class Page:
    """A page of a corpus with what the model is told and what is true."""


def domain(url):
    host = re.sub(r"^[a-z]+://([^/:?#]*).*$", r"\1", url or "")
    labels = host.split(".")
    short = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if short else -2 :])


def shingles(text, n=4):
    words = WORD.findall(text or "")
    return Counter(tuple(words[i : i + n]) for i in range(max(1, len(words) - n + 1)) if words[i : i + n])


def squeeze(text):
    return re.sub(r"\s+", " ", text or "").strip()


def fold(text):
    return " ".join(WORD.findall((text or "").lower()))


def label_body(texts, gold, n=4):
    """The part of each block's words that runs of n words of the gold cover."""
    words, owner = [], []
    for index, text in enumerate(texts):
        for word in WORD.findall(text):
            words.append(word)
            owner.append(index)
    known = WORD.findall(gold)
    known = {tuple(known[i : i + n]) for i in range(len(known) - n + 1)}
    covered = np.zeros(len(words), bool)
    for i in range(len(words) - n + 1):
        if tuple(words[i : i + n]) in known:
            covered[i : i + n] = True
    label, count = np.zeros(len(texts)), np.zeros(len(texts))
    for place, index in enumerate(owner):
        count[index] += 1
        label[index] += covered[place]
    return label / np.maximum(1, count)


def label_snippets(texts, wanted, unwanted):
    """1 for blocks with a required snippet, 0 with a forbidden one, -1 for all others."""
    label = np.full(len(texts), -1.0)
    for snippets, value in ((wanted, 1.0), (unwanted, 0.0)):
        for snippet in map(squeeze, snippets or []):
            for index, text in enumerate(texts):
                if snippet and (snippet in text or (len(text) > 15 and text in snippet)):
                    label[index] = value
    return label


def load(features, corpora):
    names = json.load(open(features / "names.json"))
    blocks = np.fromfile(features / "blocks.f32", np.float32).reshape(-1, len(names["blocks"]))
    candidates = np.fromfile(features / "candidates.f32", np.float32).reshape(-1, len(names["candidates"]))
    truth = {Path(c).name: json.load(open(Path(c) / "truth.json")) for c in corpora}
    pages, at, at_candidate = [], 0, 0
    for line in open(features / "pages.ndjson"):
        told = json.loads(line)
        page = Page()
        page.corpus, page.id, page.texts, page.told = told["corpus"], told["id"], told["texts"], told
        page.title = fold(told["title"])
        page.X = blocks[at : at + len(page.texts)]
        at += len(page.texts)
        page.ranges = told["candidates"]
        page.C = candidates[at_candidate : at_candidate + len(page.ranges)]
        at_candidate += len(page.ranges)
        if page.id not in truth.get(page.corpus, {}):
            continue
        page.truth = truth[page.corpus][page.id]
        page.fold = zlib.crc32(domain(page.truth.get("url") or page.id).encode()) % FOLDS
        gold = page.truth.get("articleBody")
        page.gold = shingles(gold) if gold else None
        page.y = label_body(page.texts, gold) if gold else None
        page.snippets = label_snippets(page.texts, page.truth.get("with"), page.truth.get("without"))
        page.W = np.expm1(page.X[:, names["blocks"].index("lw")]) if len(page.texts) else np.zeros(0)
        pages.append(page)
    return names, pages


def body_score(page, chosen):
    """Precision and recall of chosen blocks, as the scoring tool counts them."""
    said = shingles("\n".join(page.texts[i] for i in chosen))
    hit = sum((page.gold & said).values())
    precision = hit / sum(said.values()) if said else None
    return precision, hit / max(1, sum(page.gold.values()))


def f1(p, r):
    return 2 * p * r / (p + r) if p and r else 0.0


def report(name, pages, chosen):
    out = []
    for corpus in dict.fromkeys(page.corpus for page in pages):
        P, R, count = [], [], Counter()
        for page in (page for page in pages if page.corpus == corpus):
            picked = chosen(page)
            if page.gold is not None:
                p, r = body_score(page, picked)
                R.append(r)
                if p is not None:
                    P.append(p)
            elif page.truth.get("with") or page.truth.get("without"):
                body = squeeze("\n".join(page.texts[i] for i in picked))
                for snippet in page.truth.get("with") or []:
                    count["tp" if squeeze(snippet) in body else "fn"] += 1
                for snippet in page.truth.get("without") or []:
                    count["fp" if squeeze(snippet) in body else "tn"] += 1
        if R:
            p, r = np.mean(P), np.mean(R)
        else:
            p, r = count["tp"] / max(1, count["tp"] + count["fp"]), count["tp"] / max(1, count["tp"] + count["fn"])
        out.append(f"{corpus} {f1(p, r):.4f} ({p:.3f}/{r:.3f})")
    print(f"{name:28}", "  ".join(out), flush=True)


def prune(page, names, start, end):
    """The blocks of a candidate without what rules would cut: what the ranker learns to foresee."""
    column = {name: i for i, name in enumerate(names)}
    X = page.X[start:end]
    share = np.exp(X[:, column["lc"]]).sum() / max(1.0, np.exp(page.X[:, column["lc"]]).sum())
    get = lambda name: X[:, column[name]]
    chars = np.expm1(get("lc"))
    near = lambda part: (part > 0) & (part < 0.3 * share)
    bad = np.zeros(len(X), bool)
    for name in ["c_" + mark for mark in AGAINST] + ["t_aside", "t_nav", "t_footer", "t_form", "hid"]:
        bad |= near(get(name))
    bad |= get("tag") == 8
    bad |= (get("ldens") > 0.6) & ~((chars > 200) & (get("ldens") < 0.8))
    bad |= (get("q1ld") > 0.6) & (chars < 120)
    bad |= (get("boil") >= 1) & (chars < 80)
    bad |= (get("byl") > 0) & (chars < 80)
    bad |= (get("tag") == 1) | (get("tsim") > 0.8)
    kept = [i for i in range(end - start) if not bad[i]]
    heading = lambda i: 2 <= get("tag")[i] <= 4
    weak = lambda i: heading(i) or (chars[i] < 40 and not get("endp")[i])
    while kept and weak(kept[-1]):
        kept.pop()
    while kept and weak(kept[0]) and not heading(kept[0]):
        kept.pop(0)
    return [start + i for i in kept]


def candidate_targets(page, names):
    targets = []
    for start, end in page.ranges:
        kept = prune(page, names, start, end)
        if page.gold is not None:
            p, r = body_score(page, kept)
            targets.append(f1(p or 0.0, r))
        else:
            inside = np.zeros(len(page.texts), bool)
            inside[kept] = True
            tp = (inside & (page.snippets == 1)).sum()
            fp = (inside & (page.snippets == 0)).sum()
            wanted = (page.snippets == 1).sum()
            targets.append(2 * tp / max(1, tp + fp + wanted))
    return np.array(targets)


def fit_ranker(pages):
    X = np.concatenate([page.C for page in pages])
    y = np.concatenate([page.targets for page in pages])
    w = np.concatenate([np.full(len(page.targets), 1.0 if page.gold is not None else 0.3) for page in pages])
    return lgb.train(RANKER, lgb.Dataset(X, label=y, weight=w), RANKER_ROUNDS)


def ranking(page, scores):
    """What the scores of candidates say of each block."""
    at = np.arange(len(page.texts))
    start, end = page.ranges[int(np.argmax(scores))]
    inside, outside = np.zeros(len(at)), np.zeros(len(at))
    for score, (a, b) in zip(scores, page.ranges):
        within = (at >= a) & (at < b)
        inside[within] = np.maximum(inside[within], score)
        outside[~within] = np.maximum(outside[~within], score)
    columns = [(at >= start) & (at < end), np.full(len(at), max(scores)), inside - outside]
    return np.stack(columns, 1).astype(np.float32)


def block_data(pages, bad=()):
    X, y, w = [], [], []
    for page in pages:
        if not len(page.texts) or (page.corpus, page.id) in bad:
            continue
        if page.y is not None:
            weight = (np.minimum(page.W, 60) + 2) * 100 / max(80.0, (page.W * page.y).sum())
            weight[page.snippets >= 0] += 4
            X.append(page.F)
            y.append(page.y)
            w.append(weight)
        else:
            known = page.snippets >= 0
            X.append(page.F[known])
            y.append(page.snippets[known])
            w.append(np.full(known.sum(), 8.0))
    return np.concatenate(X), np.concatenate(y), np.concatenate(w)


def thinned(X, y, w, links):
    """Without most of what is easily told, the rest of which counts the more."""
    easy = (y == 0) & (X[:, links] > 0.6)
    kept = ~easy | (np.random.default_rng(1).random(len(y)) < EASY)
    return X[kept], y[kept], np.where(easy, w / EASY, w)[kept]


def fit_blocks(pages, bad=(), **changes):
    X, y, w = thinned(*block_data(pages, bad), Page.links)
    return lgb.train(dict(BLOCK, **changes), lgb.Dataset(X, label=y, weight=w), BLOCK_ROUNDS)


def cross_validate(pages, bad=(), **changes):
    p = {}
    for fold in range(FOLDS):
        model = fit_blocks([page for page in pages if page.fold != fold], bad, **changes)
        for page in pages:
            if page.fold == fold:
                p[page.corpus, page.id] = model.predict(page.F)
    return p


def choose(page, p, accept=ACCEPT, edge=EDGE):
    """The blocks that are the article's, as the product chooses them."""
    if p is None:
        return []
    taken = p > accept
    long = np.nonzero(taken & (page.W >= 10))[0]
    if len(long):
        at = np.arange(len(p))
        taken &= ((at >= long[0]) & (at <= long[-1])) | (p >= edge)
    chosen = np.nonzero(taken)[0]
    if page.W[chosen].sum() < 25:
        more = np.nonzero(p > DESPERATE)[0]
        if page.W[more].sum() > page.W[chosen].sum():
            chosen = more
    seen, out = set(), []
    for i in chosen:
        if page.title and fold(page.texts[i]) == page.title:
            continue
        if len(page.texts[i]) >= 40:
            if page.texts[i] in seen:
                continue
            seen.add(page.texts[i])
        out.append(i)
    return out


def write_table(path, model, names, about):
    """One tree a line, in Polish notation."""
    dumped = model.dump_model()

    def tree(node):
        if "leaf_value" in node:
            return f"= {node['leaf_value']:.5g}"
        assert node["decision_type"] == "<="
        limit = np.float32(node["threshold"])
        return f"{node['split_feature']} {limit:.7g} {tree(node['left_child'])} {tree(node['right_child'])}"

    with open(path, "w") as out:
        print(f"# {about}\n# Made by crates/bench/train/train.py; its first lines say how.", file=out)
        print("features", *names, file=out)
        print("base 0", file=out)
        for one in dumped["tree_info"]:
            print("tree", tree(one["tree_structure"]), file=out)
    print("wrote", path, path.stat().st_size, "bytes")


def train_body(names, pages, out, thorough):
    Page.links = names["blocks"].index("ldens")
    pages = [page for page in pages if len(page.texts)]
    for page in pages:
        page.targets = candidate_targets(page, names["blocks"])
    for fold in range(FOLDS):
        ranker = fit_ranker([page for page in pages if page.fold != fold])
        for page in pages:
            if page.fold == fold:
                page.scores = ranker.predict(page.C)
    for page in pages:
        page.F = np.concatenate([page.X, ranking(page, page.scores)], 1)
    first = cross_validate(pages)
    report("first pass", pages, lambda page: choose(page, first[page.corpus, page.id]))
    bad = set()
    for page in pages:
        if page.gold is not None:
            p, r = body_score(page, choose(page, first[page.corpus, page.id]))
            if f1(p or 0, r) < 0.6:
                bad.add((page.corpus, page.id))
    print(len(bad), "pages whose gold is not their article are left out")
    if out:
        model = fit_blocks(pages, bad)
        gain = model.feature_importance("gain")
        told = names["blocks"] + RANKING
        print("gain", [(told[i], round(gain[i] / gain.sum(), 3)) for i in np.argsort(-gain)[:20]])
        write_table(out / "blocks.txt", model, told, "Whether a block is part of the article.")
        ranker = fit_ranker([page for page in pages if (page.corpus, page.id) not in bad])
        write_table(out / "ranker.txt", ranker, names["candidates"], "How well a container holds the article.")
    p = cross_validate(pages, bad)
    report("cross-validated", pages, lambda page: choose(page, p[page.corpus, page.id]))
    for accept, edge in ((0.52, 0.58), (0.54, 0.60), (0.60, 0.66)):
        report(f"accept {accept}", pages, lambda page: choose(page, p[page.corpus, page.id], accept, edge))
    if thorough:
        for seed in (2, 3):
            q = cross_validate(pages, bad, seed=seed)
            report(f"seed {seed}", pages, lambda page: choose(page, q[page.corpus, page.id]))
        for corpus in dict.fromkeys(page.corpus for page in pages):
            model = fit_blocks([page for page in pages if page.corpus != corpus], bad)
            mine = [page for page in pages if page.corpus == corpus]
            report("transfer", mine, lambda page: choose(page, model.predict(page.F)))
    return p


def main():
    args = sys.argv[1:]
    out = None
    if "--out" in args:
        at = args.index("--out")
        out = Path(args[at + 1])
        del args[at : at + 2]
    flags = [arg for arg in args if arg.startswith("--")]
    args = [arg for arg in args if not arg.startswith("--")]
    if len(args) < 2:
        sys.exit(__doc__)
    names, pages = load(Path(args[0]), args[1:])
    print(len(pages), "pages,", sum(len(page.texts) for page in pages), "blocks,", len(names["blocks"]), "features")
    metadata.train(names, pages, out, write_table)
    if "--metadata" not in flags:
        train_body(names, pages, out, "--thorough" in flags)


if __name__ == "__main__":
    main()
