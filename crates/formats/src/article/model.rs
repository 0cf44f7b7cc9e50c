//! Boosted trees as tables: what was learned from pages with known articles.
//!
//! A table is text, one tree a line, written by `crates/bench/train/train.py`; its first lines say
//! how it was made and name the features it looks at. A model is data: nothing here knows what the
//! features mean. Every tree is laid out in full, so that a walk has no branches and no ends.

use super::features::WIDTH;

/// The deepest tree that is read.
const DEPTH: usize = 6;
/// Places for the questions of a tree, and for its answers.
const PLACES: usize = 1 << DEPTH;

/// A tree: the question in each place goes to the places `2n` and `2n + 1`.
#[derive(Clone, Debug)]
struct Tree {
    features: [u8; PLACES],
    limits: [f32; PLACES],
    answers: [f32; PLACES],
}

/// A sum of trees.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// The features it looks at, in its own order.
    pub names: Vec<String>,
    base: f32,
    trees: Vec<Tree>,
}

impl Model {
    /// Reads a table: comments start with `#`; then `features` and their names, `base` and a number,
    /// and the trees in Polish notation: `feature limit LEFT RIGHT`, or `= answer`.
    pub(super) fn read(table: &str) -> Option<Self> {
        let mut model = Self::default();
        for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let mut words = line.split_ascii_whitespace();
            match words.next()? {
                "features" => model.names = words.map(str::to_owned).collect(),
                "base" => model.base = words.next()?.parse().ok()?,
                "tree" => model.trees.push(Tree::read(words)?),
                _ => return None,
            }
        }
        (model.names.len() <= WIDTH && !model.trees.is_empty()).then_some(model)
    }

    /// The score of one row of features.
    pub(super) fn score(&self, row: &[f32; WIDTH]) -> f32 {
        let mut sum = self.base;
        for tree in &self.trees {
            let mut place = 1;
            for _ in 0..DEPTH {
                // Places stay below their number: the mask only tells the compiler so.
                let at = place & (PLACES - 1);
                let (Some(feature), Some(limit)) = (tree.features.get(at), tree.limits.get(at))
                else {
                    continue;
                };
                let value = row.get(usize::from(*feature)).copied().unwrap_or_default();
                place = 2 * place + usize::from(value > *limit);
            }
            sum += tree.answers.get(place & (PLACES - 1)).copied().unwrap_or_default();
        }
        sum
    }

    /// The score as a probability.
    pub(super) fn probability(&self, row: &[f32; WIDTH]) -> f32 {
        1.0 / (1.0 + (-self.score(row)).exp())
    }
}

impl Tree {
    fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut tree =
            Self { features: [0; PLACES], limits: [f32::INFINITY; PLACES], answers: [0.0; PLACES] };
        let mut waiting = vec![(1_usize, 0_usize)];
        while let Some((place, depth)) = waiting.pop() {
            match words.next()? {
                "=" => {
                    // An answer above the bottom: questions without a limit lead to it.
                    let bottom = place << (DEPTH - depth);
                    *tree.answers.get_mut(bottom & (PLACES - 1))? = words.next()?.parse().ok()?;
                }
                feature if depth < DEPTH => {
                    *tree.features.get_mut(place)? = feature.parse().ok()?;
                    *tree.limits.get_mut(place)? = words.next()?.parse().ok()?;
                    waiting.push((2 * place + 1, depth + 1));
                    waiting.push((2 * place, depth + 1));
                }
                _ => return None,
            }
        }
        words.next().is_none().then_some(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[f32]) -> [f32; WIDTH] {
        let mut row = [0.0; WIDTH];
        row[..values.len()].copy_from_slice(values);
        row
    }

    #[test]
    fn trees_are_walked_to_their_answers() {
        let table = "# how\nfeatures a b\nbase 0.5\ntree 0 1.5 = 1 1 2 = 10 = 100\ntree = 1000\n";
        let model = Model::read(table).unwrap();
        assert_eq!(model.names, ["a", "b"]);
        for (values, score) in [([1.5, 9.0], 1001.5), ([2.0, 2.0], 1010.5), ([2.0, 2.1], 1100.5)] {
            assert!((model.score(&row(&values)) - score).abs() < 1e-3, "{values:?}");
        }
    }

    #[test]
    fn a_broken_table_is_no_model() {
        for table in [
            "",
            "features a",
            "tree",
            "tree 0 1",
            "tree 0 1 = 1",
            "tree = 1 = 2",
            "tree x 1 = 1 = 2",
            "forest",
        ] {
            assert!(Model::read(table).is_none(), "{table}");
        }
        let deep = format!("tree {} = 1", "0 1 = 1 ".repeat(7));
        assert!(Model::read(&deep).is_none());
    }
}
