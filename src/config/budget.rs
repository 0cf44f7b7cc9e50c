//! How many requests polls may cost in a time.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::BadValue;

/// `N/day` or `N/hour`; empty for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", title = "requests in a time, such as \"5000/day\" or \"300/hour\"")]
pub struct Budget {
    requests: u32,
    hourly: bool,
}

impl Budget {
    /// Requests a day; `None` without a limit.
    #[must_use]
    pub fn per_day(self) -> Option<f64> {
        let times = if self.hourly { 24.0 } else { 1.0 };
        (self.requests > 0).then(|| f64::from(self.requests) * times)
    }
}

impl FromStr for Budget {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let bad = || BadValue { given: text.to_owned(), wanted: "N/day or N/hour, with N above 0" };
        let (requests, time) = text.split_once('/').ok_or_else(bad)?;
        let requests = requests.trim().parse().ok().filter(|n| *n > 0).ok_or_else(bad)?;
        match time.trim() {
            "day" | "d" => Ok(Self { requests, hourly: false }),
            "hour" | "h" => Ok(Self { requests, hourly: true }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.requests, self.hourly) {
            (0, _) => Ok(()),
            (requests, true) => write!(f, "{requests}/hour"),
            (requests, false) => write!(f, "{requests}/day"),
        }
    }
}

impl TryFrom<String> for Budget {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<Budget> for String {
    fn from(budget: Budget) -> Self {
        budget.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_reads_as_it_is_written() {
        for (text, written, per_day) in [
            ("5000/day", "5000/day", Some(5000.0)),
            ("300 / hour", "300/hour", Some(7200.0)),
            ("12/h", "12/hour", Some(288.0)),
            ("", "", None),
        ] {
            let budget: Budget = text.parse().unwrap();
            assert_eq!((budget.to_string().as_str(), budget.per_day()), (written, per_day));
        }
        for bad in ["5000", "0/day", "x/day", "5/week", "-1/hour"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
    }
}
