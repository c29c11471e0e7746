//! What came of a comparison: a table for people, JSON for machines.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    allowance::{ALL, Allowance},
    fields::{Difference, methods},
};
use crate::conform::{report::Compared, wire::Outcome};

/// What one server said to one question.
#[derive(Clone, Debug)]
pub struct Answers {
    /// How many messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
    /// The code; `None` if there was no end in time.
    pub code: Option<String>,
    /// SHA-256 of the messages and the code, after what is looked past.
    pub digest: [u8; 32],
    /// From the call to its end.
    pub took: Duration,
}

impl Answers {
    pub(super) fn new(outcome: &Outcome, took: Duration) -> Answers {
        let code = outcome.end.as_ref().map(|(code, _)| format!("{code:?}"));
        let mut digest = Sha256::new();
        for message in &outcome.messages {
            digest.update((message.len() as u64).to_le_bytes());
            digest.update(message);
        }
        match &outcome.end {
            Some((code, words)) => digest.update(format!("{} {words}", i32::from(*code))),
            None => digest.update("open"),
        }
        Answers {
            messages: outcome.messages.len(),
            bytes: outcome.messages.iter().map(Vec::len).sum(),
            code,
            digest: digest.finalize().into(),
            took,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "messages": self.messages,
            "bytes": self.bytes,
            "code": self.code,
            "digest": const_hex::encode(self.digest),
            "millis": self.took.as_secs_f64() * 1e3,
        })
    }
}

/// One question and what came of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method that was called.
    pub method: String,
    /// The method whose case it is; most often the same.
    pub of: &'static str,
    /// The case's name.
    pub name: String,
    /// Which of the case's calls.
    pub nth: usize,
    /// The rule's name in `docs/conformance.md`.
    pub rule: &'static str,
    /// What was asked.
    pub request: String,
    /// Where the answers differ; empty if nowhere.
    pub differences: Vec<Difference>,
    /// What was looked past.
    pub allowed: Vec<Allowance>,
    /// What the first server said.
    pub a: Answers,
    /// What the second one said.
    pub b: Answers,
}

/// A comparison.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first server's address.
    pub a: String,
    /// The second one's.
    pub b: String,
    /// The node's address.
    pub node: String,
    /// What the node calls its chain.
    pub chain: String,
    /// The height of the tip at the end.
    pub tip: u32,
    /// Whether all of the chain was read, so that addresses were asked about.
    pub complete: bool,
    /// What chose the questions.
    pub seed: u64,
    /// Whether nothing was looked past.
    pub strict: bool,
    /// In the order they were asked.
    pub asked: Vec<Asked>,
}

/// Counts of one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    asked: usize,
    equal: usize,
    allowed: usize,
}

impl Report {
    /// The questions whose answers differ.
    pub fn different(&self) -> impl Iterator<Item = &Asked> {
        self.asked
            .iter()
            .filter(|asked| !asked.differences.is_empty())
    }

    /// Compares the differences with a list of known ones, in the form of `conform --expect`.
    pub fn compare(&self, list: &str) -> Compared {
        let different = self.different();
        Compared::with(
            list,
            different.map(|asked| (asked.of, asked.name.as_str(), asked.rule)),
        )
    }

    /// SHA-256 of everything the first and the second server said, in the order it was asked.
    pub fn digests(&self) -> [[u8; 32]; 2] {
        let (mut a, mut b) = (Sha256::new(), Sha256::new());
        for asked in &self.asked {
            a.update(asked.a.digest);
            b.update(asked.b.digest);
        }
        [a.finalize().into(), b.finalize().into()]
    }

    /// How often each allowance was needed.
    fn allowances(&self) -> Vec<(Allowance, usize)> {
        ALL.into_iter()
            .map(|allowance| {
                let times = self
                    .asked
                    .iter()
                    .filter(|asked| asked.allowed.contains(&allowance));
                (allowance, times.count())
            })
            .collect()
    }

    /// Counts of every method of the protocol, asked or not, and of what is none.
    fn counts(&self) -> Vec<(String, Counts)> {
        let mut counts: Vec<(String, Counts)> = methods()
            .into_iter()
            .chain(["(no method)".to_owned()])
            .map(|method| (method, Counts::default()))
            .collect();
        for asked in &self.asked {
            let last = counts.len() - 1;
            let at = counts
                .iter()
                .position(|(method, _)| *method == asked.method);
            let (_, counts) = &mut counts[at.unwrap_or(last)];
            counts.asked += 1;
            counts.equal += usize::from(asked.differences.is_empty());
            counts.allowed +=
                usize::from(asked.differences.is_empty() && !asked.allowed.is_empty());
        }
        counts
    }

    /// How often each field of a method differs: places, and answers that hold them.
    fn fields(&self) -> BTreeMap<(String, String), (usize, usize)> {
        let mut fields: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for asked in self.different() {
            let mut here = Vec::new();
            for difference in &asked.differences {
                let kind = (asked.method.clone(), difference.kind());
                let count = fields.entry(kind.clone()).or_default();
                count.0 += 1;
                if !here.contains(&kind) {
                    count.1 += 1;
                    here.push(kind);
                }
            }
        }
        fields
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let questions: Vec<Value> = self
            .asked
            .iter()
            .map(|asked| {
                let allowed: Vec<&str> = asked.allowed.iter().map(|each| each.name()).collect();
                json!({
                    "method": asked.method,
                    "case": format!("{}: {}", asked.of, asked.name),
                    "rule": asked.rule,
                    "request": asked.request,
                    "verdict": if asked.differences.is_empty() { "equal" } else { "different" },
                    "looked_past": allowed,
                    "differences": asked.differences,
                    "a": asked.a.to_json(),
                    "b": asked.b.to_json(),
                })
            })
            .collect();
        let methods: Vec<Value> = self
            .counts()
            .into_iter()
            .map(|(method, counts)| {
                json!({
                    "method": method,
                    "asked": counts.asked,
                    "equal": counts.equal,
                    "different": counts.asked - counts.equal,
                    "looked_past": counts.allowed,
                })
            })
            .collect();
        let fields: Vec<Value> = self
            .fields()
            .into_iter()
            .map(|((method, field), (places, answers))| {
                json!({ "method": method, "field": field, "places": places, "answers": answers })
            })
            .collect();
        let allowances: serde_json::Map<String, Value> = self
            .allowances()
            .into_iter()
            .map(|(allowance, times)| (allowance.name().to_owned(), times.into()))
            .collect();
        let [a, b] = self.digests();
        json!({
            "kind": "compare-1",
            "a": self.a,
            "b": self.b,
            "node": self.node,
            "chain": self.chain,
            "tip": self.tip,
            "complete": self.complete,
            "seed": self.seed,
            "strict": self.strict,
            "asked": self.asked.len(),
            "equal": self.asked.len() - self.different().count(),
            "different": self.different().count(),
            "digest_a": const_hex::encode(a),
            "digest_b": const_hex::encode(b),
            "looked_past": allowances,
            "methods": methods,
            "fields": fields,
            "questions": questions,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for asked in self.different() {
            writeln!(
                formatter,
                "DIFFERENT {}: {} [{}]",
                asked.of, asked.name, asked.rule
            )?;
            writeln!(formatter, "    asked {} {}", asked.method, asked.request)?;
            for Difference { field, a, b } in &asked.differences {
                writeln!(formatter, "    {field}")?;
                writeln!(formatter, "        a {a}")?;
                writeln!(formatter, "        b {b}")?;
            }
        }
        for ((method, field), (places, answers)) in self.fields() {
            writeln!(
                formatter,
                "{method} {field}: {places} places in {answers} answers"
            )?;
        }
        writeln!(
            formatter,
            "{:26} {:>6} {:>6} {:>6} {:>12}",
            "method", "asked", "equal", "differ", "looked past"
        )?;
        for (method, counts) in self.counts() {
            writeln!(
                formatter,
                "{method:26} {:6} {:6} {:6} {:12}",
                counts.asked,
                counts.equal,
                counts.asked - counts.equal,
                counts.allowed
            )?;
        }
        if !self.complete {
            writeln!(
                formatter,
                "the chain is longer than --sample: histories, balances and outputs of addresses were not asked for"
            )?;
        }
        for (allowance, times) in self.allowances() {
            if times > 0 {
                writeln!(formatter, "looked past {}: {times} times", allowance.name())?;
            }
        }
        let [a, b] = self.digests();
        writeln!(formatter, "a {} SHA-256 {}", self.a, const_hex::encode(a))?;
        writeln!(formatter, "b {} SHA-256 {}", self.b, const_hex::encode(b))?;
        let different = self.different().count();
        write!(
            formatter,
            "{} equal, {different} different",
            self.asked.len() - different
        )
    }
}
