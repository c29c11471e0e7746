//! The wanted speeds (`bench/README.md`, "What is wanted"), held against runs.
//!
//! In: a study, and the name of the server that is judged. Out: a line for each target: what was measured, in which run and case, and whether that meets
//! it. A target that no run holds is "not measured"; it is never taken for met. Of several runs that hold one, the worst counts.

use std::{collections::BTreeSet, fmt::Write};

use serde::Serialize;

use super::{
    numbers::{before, count, figure, ratio},
    study::{Cell, RunFacts, Section, Study, Table, nearness},
};
use crate::bench::{plan::plain_name, record::Better};

/// What came of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was measured and is met.
    Met,
    /// It was measured and is not.
    NotMet,
    /// It was measured under other circumstances than the target names.
    OtherTerms,
    /// No run holds it.
    NotMeasured,
}

/// A target and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What is wanted.
    pub what: &'static str,
    /// How much.
    pub wanted: &'static str,
    /// What was measured; how to measure it where no run holds it.
    pub measured: String,
    /// How near it comes: 1 is just met.
    pub ratio: Option<f64>,
    /// The outcome.
    pub verdict: Verdict,
    /// The outcome in words.
    pub met: &'static str,
}

/// Something that was measured for a target.
#[derive(Clone, Debug)]
struct Found {
    /// 1 is just met, below is not.
    ratio: f64,
    text: String,
    /// What was different from what the target names.
    otherwise: Option<String>,
}

/// Looks for the figures of a target.
type Look = fn(&RunFacts, &str) -> Vec<Found>;

struct Target {
    what: &'static str,
    wanted: &'static str,
    look: Look,
    /// What measures it, where runs of the bench do not.
    elsewhere: &'static str,
}

/// Methods of the protocol that a server answers: all but `Ping`, which is off.
const METHODS: usize = 19;

const TARGETS: [Target; 20] = [
    Target {
        what: "default-view range, one client that only drains, to a plain sender of the same bytes",
        wanted: ">= 0.95",
        look: |run, server| {
            throughput_to_limit(run, server, "ranges", 0.95, |clients| clients == 1.0)
        },
        elsewhere: "",
    },
    Target {
        what: "server CPU a GB on that path, to the plain sender's",
        wanted: "<= 1.2",
        look: |run, server| {
            let rows = largest(rows(run, "ranges", "server cpu a GB", server)).into_iter();
            rows.filter_map(|row| {
                // Nearness to the limit of what should be low: plain / ours.
                let more = 1.0 / row.cell.to_limit?;
                row.found(1.2 / more, format!("{} x", ratio(more)))
            })
            .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "blocks a server CPU second on that path",
        wanted: ">= 5,000,000",
        look: |run, server| {
            let metric = "blocks a server CPU second";
            let rows = largest(rows(run, "ranges", metric, server)).into_iter();
            rows.filter_map(|row| {
                let median = row.cell.median?;
                row.found(median / 5e6, figure(median))
            })
            .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "16, 128, 256 clients together, to the plain sender with as many connections",
        wanted: ">= 0.9",
        look: |run, server| {
            throughput_to_limit(run, server, "concurrency", 0.9, |clients| {
                [16.0, 128.0, 256.0].contains(&clients)
            })
        },
        elsewhere: "",
    },
    Target {
        what: "the slowest of 16, 128, 256 clients, to their mean",
        wanted: ">= 0.5",
        look: |run, server| {
            let rows = rows(run, "concurrency", "slowest client", server).into_iter();
            rows.filter(|row| [16.0, 128.0, 256.0].contains(&clients(row.case)))
                .filter_map(|row| {
                    let median = row.cell.median?;
                    row.found(median / 0.5, ratio(median))
                })
                .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "1,000-block ranges, one client, to Zaino",
        wanted: ">= 50 x",
        look: |run, server| against(run, server, &["zaino"], 50.0),
        elsewhere: "",
    },
    Target {
        what: "1,000-block ranges, one client, to lightwalletd",
        wanted: ">= 20 x",
        look: |run, server| against(run, server, &["lightwalletd"], 20.0),
        elsewhere: "",
    },
    Target {
        what: "1,000-block ranges, one client, to Zebra's built-in service",
        wanted: ">= 20 x",
        look: |run, server| against(run, server, &["zebra"], 20.0),
        elsewhere: "",
    },
    Target {
        what: "every compared row of the tables is won",
        wanted: "no row behind",
        look: every_row,
        elsewhere: "",
    },
    Target {
        what: "unary calls answered from the view, to an empty handler",
        wanted: ">= 0.9",
        look: |run, server| {
            let from_view = [
                "GetLatestBlock",
                "GetBlock",
                "GetBlockNullifiers",
                "GetLightdInfo",
            ];
            let rows = rows(run, "rpc", "throughput", server).into_iter();
            rows.filter(|row| from_view.contains(&row.method()))
                .filter_map(|row| {
                    let to_limit = row.cell.to_limit?;
                    row.found(to_limit / 0.9, ratio(to_limit))
                })
                .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "tree state at a random height, p50, node switched off",
        wanted: "< 1 ms",
        look: |run, server| {
            let rows = rows(run, "latency", "p50", server).into_iter();
            rows.filter(|row| row.case.starts_with("GetTreeState"))
                .filter_map(|row| {
                    let median = row.cell.median?;
                    let mut found = row.found(1.0 / median, format!("{} ms", figure(median)))?;
                    if !row.case.contains("node off") {
                        found.otherwise = Some("with the node running".to_owned());
                    }
                    Some(found)
                })
                .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "index build from Zebra's state, to a bare scan of the same columns",
        wanted: ">= 0.7",
        look: |run, server| build_to_bare(run, server, "state", 0.7),
        elsewhere: "lightship-harness bench-build --zebra-state DIR --scanner PROGRAM --out DIR",
    },
    Target {
        what: "index build over JSON-RPC, to fetching and decoding the same blocks",
        wanted: ">= 0.9",
        look: |run, server| build_to_bare(run, server, "index", 0.9),
        elsewhere: "lightship-harness bench-build --out DIR",
    },
    Target {
        what: "parse and compact, one core, to zcash_primitives",
        wanted: ">= 20 x",
        look: |run, server| {
            let lines = rows(run, "parse", "throughput", server);
            times_of(lines, server, &["zcash_primitives"], 20.0)
        },
        elsewhere: "cargo bench -p lightship-harness --bench parse_vs_zcash_primitives -- --out DIR",
    },
    Target {
        what: "first answer after a start on an empty store",
        wanted: "< 1 s",
        look: |run, server| {
            let rows = rows(run, "build", "first answer", server).into_iter();
            rows.filter_map(|row| {
                let median = row.cell.median?;
                row.found(1.0 / median, format!("{} s", figure(median)))
            })
            .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "restart to serving, finished index of 1,000,000 blocks",
        wanted: "< 0.5 s",
        look: |run, server| {
            let rows = rows(run, "restart", "to serving", server).into_iter();
            rows.filter_map(|row| {
                let median = row.cell.median?;
                let found = row.found(0.5 / median, format!("{} s", figure(median)))?;
                Some(of_a_million(run, row.section, found))
            })
            .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "anonymous memory, idle, 1,000,000 blocks",
        wanted: "< 150 MiB",
        look: |run, server| {
            let rows = rows(run, "idle", "rss anon", server).into_iter();
            rows.filter_map(|row| {
                let found = row.memory(150.0)?;
                Some(of_a_million(run, row.section, found))
            })
            .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "anonymous memory, 256 streaming clients",
        wanted: "< 400 MiB",
        look: |run, server| {
            let rows = rows(run, "concurrency", "rss anon", server).into_iter();
            rows.filter(|row| clients(row.case) == 256.0)
                .filter_map(|row| row.memory(400.0))
                .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "index on disk, to the protobuf it serves (companion and trees counted apart)",
        wanted: "<= 1.03",
        look: |run, server| {
            let apart = "index size to blocks served, parts apart";
            let apart = rows(run, "build", apart, server);
            // On a short chain most lies in the log of the newest blocks, of which no part can be told from the other.
            let longest = apart
                .into_iter()
                .max_by_key(|row| run.blocks_of(row.section));
            if longest.is_some() {
                return longest
                    .into_iter()
                    .filter_map(|row| {
                        let median = row.cell.median?;
                        row.found(1.03 / median, ratio(median))
                    })
                    .collect();
            }
            let rows = rows(run, "build", "index size to blocks served", server).into_iter();
            rows.filter_map(|row| {
                let median = row.cell.median?;
                let mut found = row.found(1.03 / median, ratio(median))?;
                // With them counted in, more than is wanted says nothing; less says enough.
                if median > 1.03 {
                    found.otherwise = Some("companion and trees counted in".to_owned());
                }
                Some(found)
            })
            .collect()
        },
        elsewhere: "",
    },
    Target {
        what: "256 connections, every method: errors",
        wanted: "0",
        look: |run, server| {
            let at_256 = |case: &str| before(case, &["workers", "clients"]) == Some(256.0);
            let all = ["rpc", "concurrency"].map(|suite| every(run, suite, server));
            let all: Vec<Line<'_>> = all
                .into_iter()
                .flatten()
                .filter(|row| at_256(row.case))
                .collect();
            let failed = all.iter().filter(|row| !row.cell.errors.is_empty()).count();
            if all.is_empty() {
                return Vec::new();
            }
            let methods: BTreeSet<&str> = all.iter().map(Line::method).collect();
            let found = Found {
                ratio: if failed == 0 { 1.0 } else { 0.0 },
                text: format!("{failed} of {} rows ({})", all.len(), run.folder),
                otherwise: (methods.len() < METHODS)
                    .then(|| format!("{} of {METHODS} methods asked", methods.len())),
            };
            vec![found]
        },
        elsewhere: "",
    },
];

/// A cell of the server that is judged, and where it stands.
struct Line<'a> {
    run: &'a RunFacts,
    section: &'a Section,
    table: &'a Table,
    row: usize,
    case: &'a str,
    cell: &'a Cell,
}

impl Line<'_> {
    /// `None` where the ratio says nothing.
    fn found(&self, ratio: f64, text: String) -> Option<Found> {
        ratio.is_finite().then(|| Found {
            ratio,
            text: format!(
                "{text} ({}, {}, {})",
                self.case, self.section.chain, self.run.folder
            ),
            otherwise: None,
        })
    }

    /// What was asked.
    fn method(&self) -> &str {
        match plain_name(&self.section.suite) {
            "concurrency" => "GetBlockRange",
            _ => self.case.split([',', ' ']).next().unwrap_or_default(),
        }
    }

    /// Megabytes held against mebibytes.
    fn memory(&self, mebibytes: f64) -> Option<Found> {
        let found = self.cell.median? * 1e6 / f64::from(1 << 20);
        self.found(mebibytes / found, format!("{} MiB", figure(found)))
    }
}

/// All cells of a server in a suite.
fn every<'a>(run: &'a RunFacts, suite: &str, server: &str) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for section in run
        .sections
        .iter()
        .filter(|each| plain_name(&each.suite) == suite)
    {
        for table in &section.tables {
            let Some(at) = table
                .servers
                .iter()
                .position(|column| column.name == server)
            else {
                continue;
            };
            let rows = table.rows.iter().enumerate();
            lines.extend(rows.map(|(nth, row)| Line {
                run,
                section,
                table,
                row: nth,
                case: &row.case,
                cell: &row.cells[at],
            }));
        }
    }
    lines
}

fn rows<'a>(run: &'a RunFacts, suite: &str, metric: &str, server: &str) -> Vec<Line<'a>> {
    let mut lines = every(run, suite, server);
    lines.retain(|line| line.table.metric == metric);
    lines
}

fn blocks(case: &str) -> f64 {
    before(case, &["blocks", "block"]).unwrap_or(0.0)
}

fn clients(case: &str) -> f64 {
    before(case, &["clients", "client"]).unwrap_or(0.0)
}

/// Those of the largest ranges: one on each chain, and for each number of clients.
fn largest(mut lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let most = lines.iter().map(|line| blocks(line.case));
    let most = most.fold(0.0, f64::max);
    lines.retain(|line| blocks(line.case) == most);
    lines
}

/// Throughput in the largest ranges, for each number of clients that is asked about.
fn throughput_to_limit(
    run: &RunFacts,
    server: &str,
    suite: &str,
    wanted: f64,
    of: fn(f64) -> bool,
) -> Vec<Found> {
    let mut lines = rows(run, suite, "throughput", server);
    lines.retain(|line| of(clients(line.case)));
    largest(lines)
        .iter()
        .filter_map(|line| {
            let to_limit = line.cell.to_limit?;
            line.found(to_limit / wanted, ratio(to_limit))
        })
        .collect()
}

/// The whole build of an index to just having the blocks.
fn build_to_bare(run: &RunFacts, server: &str, suite: &str, wanted: f64) -> Vec<Found> {
    let rows = rows(run, suite, "throughput", server).into_iter();
    rows.filter_map(|row| {
        let to_limit = row.cell.to_limit?;
        row.found(to_limit / wanted, ratio(to_limit))
    })
    .collect()
}

/// Against another server, by a part of its name.
fn against(run: &RunFacts, server: &str, peers: &[&str], wanted: f64) -> Vec<Found> {
    let mut lines = rows(run, "ranges", "throughput", server);
    lines.extend(rows(run, "concurrency", "throughput", server));
    lines.retain(|line| blocks(line.case) == 1_000.0 && clients(line.case) == 1.0);
    times_of(lines, server, peers, wanted)
}

/// How many times as much as others, by a part of their names, in each of some rows.
fn times_of(lines: Vec<Line<'_>>, server: &str, peers: &[&str], wanted: f64) -> Vec<Found> {
    let mut found = Vec::new();
    for line in lines {
        let row = &line.table.rows[line.row];
        for (column, cell) in line.table.servers.iter().zip(&row.cells) {
            let name = column.name.to_lowercase();
            if column.name == server || !peers.iter().any(|peer| name.contains(peer)) {
                continue;
            }
            if let (Some(ours), Some(theirs)) = (line.cell.median, cell.median)
                && let Some(times) = nearness(ours, theirs, Better::Higher)
            {
                found.extend(line.found(times / wanted, format!("{} x", ratio(times))));
            }
        }
    }
    found
}

fn every_row(run: &RunFacts, server: &str) -> Vec<Found> {
    let Some(score) = run.score.iter().find(|score| score.server == server) else {
        return Vec::new();
    };
    let lost = score.tie + score.behind + score.failed;
    let shared = score.best + lost;
    if shared == 0 || run.score.len() < 2 {
        return Vec::new();
    }
    vec![Found {
        ratio: if lost == 0 {
            1.0
        } else {
            score.best as f64 / shared as f64
        },
        text: format!(
            "{} of {} rows won; {} behind, {} of them with overlapping spreads; {} failed ({})",
            count(score.best as u64),
            count(shared as u64),
            score.behind + score.tie,
            score.tie,
            score.failed,
            run.folder
        ),
        otherwise: None,
    }]
}

/// Marks what was measured on a shorter chain.
fn of_a_million(run: &RunFacts, section: &Section, found: Found) -> Found {
    match run.blocks_of(section) {
        1_000_000.. => found,
        blocks => Found {
            otherwise: Some(format!("on {} blocks", count(blocks))),
            ..found
        },
    }
}

/// Judges the runs of a study.
pub fn judge(study: &Study, server: &str) -> Vec<Judged> {
    TARGETS
        .iter()
        .map(|target| {
            let found = study.runs.iter().flat_map(|run| (target.look)(run, server));
            let worst = |a: &Found, b: &Found| a.ratio.total_cmp(&b.ratio);
            let (terms, others): (Vec<Found>, Vec<Found>) =
                found.partition(|found| found.otherwise.is_none());
            let worst = match terms.is_empty() {
                false => terms.into_iter().min_by(worst),
                true => others.into_iter().min_by(worst),
            };
            let (measured, ratio, verdict) = match worst {
                None => {
                    let how = target.elsewhere;
                    let dash = if how.is_empty() { "" } else { ": " };
                    (
                        format!("not measured{dash}{how}"),
                        None,
                        Verdict::NotMeasured,
                    )
                }
                Some(found) => {
                    let verdict = match &found.otherwise {
                        Some(_) => Verdict::OtherTerms,
                        None if found.ratio >= 1.0 => Verdict::Met,
                        None => Verdict::NotMet,
                    };
                    let text = match &found.otherwise {
                        Some(otherwise) => format!("{}, {otherwise}", found.text),
                        None => found.text,
                    };
                    (text, Some(found.ratio), verdict)
                }
            };
            Judged {
                what: target.what,
                wanted: target.wanted,
                measured,
                met: words(verdict, ratio),
                ratio,
                verdict,
            }
        })
        .collect()
}

fn words(verdict: Verdict, ratio: Option<f64>) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::NotMet => "NOT MET",
        Verdict::OtherTerms if ratio.is_some_and(|ratio| ratio >= 1.0) => {
            "within it, on other terms"
        }
        Verdict::OtherTerms => "beyond it, on other terms",
        Verdict::NotMeasured => "not measured",
    }
}

/// For a terminal or a page of Markdown.
pub fn table(judged: &[Judged]) -> String {
    let mut text =
        String::from("| what | wanted | measured | how near | met |\n|---|---|---|---:|---|\n");
    for each in judged {
        let near = each.ratio.map(ratio).unwrap_or_default();
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {near} | {} |",
            each.what,
            each.wanted,
            super::markdown::text(&each.measured),
            each.met,
        );
    }
    let met = judged
        .iter()
        .filter(|each| each.verdict == Verdict::Met)
        .count();
    let not = judged
        .iter()
        .filter(|each| each.verdict == Verdict::NotMet)
        .count();
    let _ = write!(
        text,
        "\n{met} met, {not} not met, {} not measured or on other terms",
        judged.len() - met - not
    );
    text
}
