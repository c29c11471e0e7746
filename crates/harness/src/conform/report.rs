//! What came of a run: a table for people, JSON for machines, and the comparison with what was expected to differ.

use std::{collections::BTreeSet, fmt, time::Duration};

use serde_json::{Value, json};

use super::case::Case;

/// A case and its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The method.
    pub method: &'static str,
    /// The case's name.
    pub name: String,
    /// The rule's name in `docs/conformance.md`.
    pub rule: &'static str,
    /// What was asked.
    pub request: Vec<String>,
    /// What was to come back.
    pub expectation: String,
    /// What was wrong; `None` for nothing.
    pub problem: Option<String>,
    /// How long it took, with all attempts.
    pub took: Duration,
}

impl Judged {
    pub(super) fn new(case: &Case, verdict: Result<(), String>, took: Duration) -> Judged {
        Judged {
            method: case.method,
            name: case.name.clone(),
            rule: case.rule,
            request: case
                .calls
                .iter()
                .map(|call| format!("{} {}", call.method, call.text))
                .collect(),
            expectation: case.expectation.text.clone(),
            problem: verdict.err(),
            took,
        }
    }

    /// Method and name: how lists of known differences call it.
    pub fn id(&self) -> String {
        format!("{}: {}", self.method, self.name)
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The server's address.
    pub server: String,
    /// The node's address.
    pub node: String,
    /// What the node calls its chain.
    pub chain: String,
    /// The height of the tip at the end.
    pub tip: u32,
    /// What chose the cases.
    pub seed: u64,
    /// In the order they ran.
    pub cases: Vec<Judged>,
}

/// How a run compares with a list of known differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Failed, and not on the list.
    pub unexpected: Vec<String>,
    /// On the list, and passed or did not run.
    pub gone: Vec<String>,
}

impl Compared {
    /// Compares failures (method, name and rule of each) with a list, as [`Report::compare`] has it.
    pub(super) fn with<'a>(
        list: &str,
        failures: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Compared {
        let known: BTreeSet<&str> = list
            .lines()
            .map(|line| line.split(" # ").next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let mut used = BTreeSet::new();
        let mut compared = Compared::default();
        for (method, name, rule) in failures {
            let id = format!("{method}: {name}");
            let whole = format!("{method}: *");
            let names = [id.as_str(), rule, whole.as_str()];
            let found: Vec<&str> = known
                .iter()
                .copied()
                .filter(|known| names.contains(known))
                .collect();
            if found.is_empty() {
                compared.unexpected.push(id);
            }
            used.extend(found);
        }
        compared.gone = known
            .difference(&used)
            .map(|&name| name.to_owned())
            .collect();
        compared
    }
}

impl Report {
    /// The cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Judged> {
        self.cases.iter().filter(|case| case.problem.is_some())
    }

    /// Compares the failures with `list`: one case's id or a rule's name a line; what follows ` # ` is a remark.
    ///
    /// A rule's name stands for all its cases, and `method: *` for all of a method.
    pub fn compare(&self, list: &str) -> Compared {
        let failed = self.failed();
        Compared::with(
            list,
            failed.map(|case| (case.method, case.name.as_str(), case.rule)),
        )
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|case| {
                json!({
                    "method": case.method,
                    "name": case.name,
                    "rule": case.rule,
                    "request": case.request,
                    "expectation": case.expectation,
                    "verdict": if case.problem.is_none() { "passed" } else { "failed" },
                    "problem": case.problem,
                    "millis": case.took.as_millis() as u64,
                })
            })
            .collect();
        json!({
            "server": self.server,
            "node": self.node,
            "chain": self.chain,
            "tip": self.tip,
            "seed": self.seed,
            "passed": self.cases.len() - self.failed().count(),
            "failed": self.failed().count(),
            "cases": cases,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for case in self.failed() {
            writeln!(formatter, "FAILED {} [{}]", case.id(), case.rule)?;
            writeln!(formatter, "    asked    {}", case.request.join("; "))?;
            writeln!(formatter, "    expected {}", case.expectation)?;
            writeln!(
                formatter,
                "    got      {}",
                case.problem.as_deref().unwrap_or_default()
            )?;
        }
        let mut methods: Vec<&str> = Vec::new();
        for case in &self.cases {
            if !methods.contains(&case.method) {
                methods.push(case.method);
            }
        }
        writeln!(formatter, "{:26} {:>6} {:>6}", "method", "passed", "failed")?;
        for method in methods {
            let of = || self.cases.iter().filter(|case| case.method == method);
            let failed = of().filter(|case| case.problem.is_some()).count();
            writeln!(
                formatter,
                "{method:26} {:6} {failed:6}",
                of().count() - failed
            )?;
        }
        let failed = self.failed().count();
        write!(
            formatter,
            "{} passed, {failed} failed",
            self.cases.len() - failed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let case = |name: &str, rule, problem: Option<&str>| Judged {
            method: "GetBlock",
            name: name.into(),
            rule,
            request: Vec::new(),
            expectation: String::new(),
            problem: problem.map(str::to_owned),
            took: Duration::ZERO,
        };
        Report {
            server: String::new(),
            node: String::new(),
            chain: "test".into(),
            tip: 9,
            seed: 1,
            cases: vec![
                case("one", "A-1", None),
                case("two", "A-2", Some("wrong")),
                case("three", "A-3", Some("wrong")),
            ],
        }
    }

    #[test]
    fn a_run_is_compared_with_what_is_known_to_differ() {
        let compared = |list| report().compare(list);
        assert_eq!(
            compared("# a remark\nGetBlock: two # why\nA-3\n"),
            Compared::default()
        );
        assert_eq!(compared("GetBlock: *"), Compared::default());
        assert_eq!(
            compared("GetBlock: two\nGetBlock: one"),
            Compared {
                unexpected: vec!["GetBlock: three".into()],
                gone: vec!["GetBlock: one".into()],
            }
        );
    }

    #[test]
    fn a_report_ends_with_its_counts() {
        let report = report();
        assert!(report.to_string().ends_with("1 passed, 2 failed"));
        let json = report.to_json();
        assert_eq!((&json["passed"], &json["failed"]), (&json!(1), &json!(2)));
    }
}
