//! `report` and `targets` on small run folders made here, hostile ones among them.

mod browser;

use std::{
    fs,
    path::{Path, PathBuf},
};

use lightship_harness::{
    bench::record::{
        Better, ChainInfo, Machine, Measurement, Run, RunFolder, Sample, ServerInfo, ServerKind,
    },
    report::{
        Arguments,
        study::{Cell, Proof, Row, Study, Table},
        targets::{self, Verdict},
    },
};
use tempfile::TempDir;

/// Closes elements, quotes, rows and cells wherever a report may forget to escape.
const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'|`{{ 7*7 }}\n=cmd()";

fn measurement(
    server: &str,
    suite: &str,
    case: &str,
    metric: &str,
    round: u32,
    value: f64,
) -> Measurement {
    Measurement {
        suite: suite.to_owned(),
        chain: "forged".to_owned(),
        server: server.to_owned(),
        case: case.to_owned(),
        round,
        metric: metric.to_owned(),
        unit: "blocks/s".to_owned(),
        value: Some(value),
        count: 1_000,
        digest: Some("aa11".to_owned()),
        ..Measurement::default()
    }
}

fn lower(mut measurement: Measurement, unit: &str) -> Measurement {
    measurement.better = Better::Lower;
    measurement.unit = unit.to_owned();
    measurement
}

fn failure(server: &str, suite: &str, case: &str, metric: &str, error: &str) -> Measurement {
    Measurement {
        value: None,
        digest: None,
        unit: String::new(),
        error: Some(error.to_owned()),
        ..measurement(server, suite, case, metric, 1, 0.0)
    }
}

fn server(name: &str, kind: ServerKind) -> ServerInfo {
    ServerInfo {
        name: name.to_owned(),
        kind,
        version: format!("{name} 1.2.3"),
        start: vec![name.to_owned(), "--listen".to_owned()],
        pinned_to: Some(vec![0, 1]),
    }
}

fn run(servers: &[(&str, ServerKind)]) -> Run {
    Run {
        name: "fixture".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        finished: "2026-01-02T04:04:05Z".to_owned(),
        plan: "seed = 7 # the plan's own words\n".to_owned(),
        command: ["lightship-harness", "bench", "--plan", "p.toml"]
            .map(str::to_owned)
            .to_vec(),
        seed: 7,
        machine: Machine {
            host: "bench-host".to_owned(),
            cpu: "A Processor".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            ..Machine::default()
        },
        servers: servers
            .iter()
            .map(|(name, kind)| server(name, *kind))
            .collect(),
        chains: vec![ChainInfo {
            name: "forged".to_owned(),
            blocks: 20_000,
            bytes: 123_456_789,
            command: "lightship-harness forge --blocks 20000".to_owned(),
            digest: "cd".repeat(32),
        }],
        notes: Vec::new(),
    }
}

fn write(run: &Run, measurements: &[Measurement]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = RunFolder::create(folder.path()).unwrap();
    made.write_run(run).unwrap();
    made.append(measurements).unwrap();
    folder
}

fn samples(folder: &Path, server: &str, pace: f64) {
    let mut text = format!("{}\n", Sample::HEAD);
    for second in 1..=120_u32 {
        let sample = Sample {
            seconds: second.into(),
            suite: if second < 60 { "build-1" } else { "idle-1" }.to_owned(),
            cpu_user: f64::from(second.min(60)) * pace,
            rss_anon: u64::from(second.min(60)) * 1_000_000,
            rss_file: 50_000_000,
            written_bytes: u64::from(second.min(60)) * 3_000_000,
            threads: 9,
            descriptors: 30,
            ..Sample::default()
        };
        text.push_str(&sample.line());
        text.push('\n');
    }
    let path = RunFolder::open(folder).samples_file("forged", server);
    fs::write(path, text).unwrap();
}

const THREE: [(&str, ServerKind); 3] = [
    ("lightship", ServerKind::Server),
    ("zainod", ServerKind::Server),
    ("raw-sender", ServerKind::Limit),
];

/// A run as the bench leaves it: rounds, a curve over clients, a suite that one server cannot run, samples, verdicts.
fn whole() -> TempDir {
    let mut lines = Vec::new();
    for (server, speed) in [
        ("lightship", 900_000.0),
        ("zainod", 21_000.0),
        ("raw-sender", 1_000_000.0),
    ] {
        for round in 1..=3_u32 {
            let drift = 1.0 + f64::from(round) / 100.0;
            for size in ["10 blocks", "1,000 blocks", "10,000 blocks"] {
                let case = format!("{size}, 1 client");
                lines.push(measurement(
                    server,
                    "ranges-2",
                    &case,
                    "throughput",
                    round,
                    speed * drift,
                ));
                let cost = measurement(
                    server,
                    "ranges-2",
                    &case,
                    "server cpu a GB",
                    round,
                    5e5 / speed,
                );
                lines.push(lower(cost, "CPU s/GB"));
            }
            for clients in [
                "1 client",
                "4 clients",
                "16 clients",
                "64 clients",
                "256 clients",
            ] {
                let case = format!("1,000 blocks, {clients}");
                lines.push(measurement(
                    server,
                    "concurrency-1",
                    &case,
                    "throughput",
                    round,
                    speed * 2.0 * drift,
                ));
            }
        }
        for (method, factor) in [
            ("GetLatestBlock", 1.0),
            ("GetBlock", 1.5),
            ("GetTreeState", 4.0),
        ] {
            for (metric, value) in [("p50", 0.2), ("p99", 0.9)] {
                let line = measurement(
                    server,
                    "latency-1",
                    method,
                    metric,
                    1,
                    value * factor * 1e5 / speed,
                );
                lines.push(lower(line, "ms"));
            }
        }
    }
    let first = measurement(
        "lightship",
        "build-1",
        "from an empty store",
        "first answer",
        1,
        0.4,
    );
    lines.push(lower(first, "s"));
    lines.push(failure(
        "zainod",
        "tls-1",
        "all cases",
        "throughput",
        "it cannot",
    ));
    lines.push(measurement(
        "lightship",
        "tls-1",
        "1,000 blocks, 1 client",
        "throughput",
        1,
        5e5,
    ));
    let folder = write(&run(&THREE), &lines);
    samples(folder.path(), "lightship", 0.5);
    samples(folder.path(), "zainod", 1.9);
    let compat = folder.path().join("compat");
    fs::create_dir(&compat).unwrap();
    fs::write(
        compat.join("zainod.json"),
        r#"{"server":"u","node":"n","chain":"regtest","tip":9,"seed":1,"passed":1,"failed":1,"cases":[
            {"method":"GetBlock","verdict":"passed"},{"method":"GetBlock","verdict":"failed"}]}"#,
    )
    .unwrap();
    folder
}

fn study(folder: &TempDir) -> Study {
    Study::read(&[folder.path().to_owned()]).unwrap()
}

fn table<'a>(study: &'a Study, suite: &str, metric: &str) -> &'a Table {
    let sections = study.runs[0].sections.iter();
    let section = sections
        .clone()
        .find(|section| section.suite == suite)
        .unwrap();
    section
        .tables
        .iter()
        .find(|table| table.metric == metric)
        .unwrap()
}

fn row<'a>(table: &'a Table, case: &str) -> &'a Row {
    table.rows.iter().find(|row| row.case == case).unwrap()
}

fn of<'a>(table: &Table, row: &'a Row, server: &str) -> &'a Cell {
    let at = table
        .servers
        .iter()
        .position(|column| column.name == server);
    &row.cells[at.unwrap()]
}

fn report(folders: &[&TempDir]) -> (TempDir, String) {
    let out = tempfile::tempdir().unwrap();
    let arguments = Arguments {
        out: out.path().to_owned(),
        runs: folders
            .iter()
            .map(|folder| folder.path().to_owned())
            .collect(),
    };
    arguments.run().unwrap();
    let html = fs::read_to_string(out.path().join("report.html")).unwrap();
    (out, html)
}

#[test]
fn medians_ratios_and_winners_are_those_of_the_rounds() {
    let folder = whole();
    let study = study(&folder);
    let table = table(&study, "ranges-2", "throughput");
    let names: Vec<&str> = table
        .servers
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["lightship", "zainod", "raw-sender"]);
    let row = row(table, "1,000 blocks, 1 client");
    let ours = of(table, row, "lightship");
    assert_eq!(ours.rounds, 3);
    assert!((ours.median.unwrap() - 918_000.0).abs() < 1e-6);
    assert_eq!(
        (ours.min.unwrap().round(), ours.max.unwrap().round()),
        (909_000.0, 927_000.0)
    );
    assert!(ours.best && !of(table, row, "raw-sender").best);
    assert!((ours.to_limit.unwrap() - 0.9).abs() < 1e-9);
    let theirs = of(table, row, "zainod");
    assert!((theirs.to_best.unwrap() - 21.0 / 900.0).abs() < 1e-9);
    assert!(!theirs.best && !theirs.tie);
    assert_eq!(row.proof, Proof::Agree);
    // Less is better: the ratio is turned round.
    let latency = self::table(&study, "latency-1", "p50");
    let row = self::row(latency, "GetBlock");
    let theirs = of(latency, row, "zainod").to_best.unwrap();
    assert!((theirs - 21.0 / 900.0).abs() < 1e-9, "{theirs}");
}

#[test]
fn what_ghz_found_stands_in_a_column_of_its_own_and_is_nobodys_win() {
    let mut lines = Vec::new();
    for (round, theirs) in (1..).zip([90.0, 110.0, 70.0]) {
        for (server, pace) in [("lightship", 100.0), ("zainod", 10.0)] {
            let case = "GetBlock, 64 workers";
            let line = measurement(server, "rpc-1", case, "throughput", round, pace);
            lines.push(Measurement {
                ghz: (server == "lightship").then_some(theirs),
                ghz_error: (server == "zainod").then(|| "2 calls of 9 failed".to_owned()),
                ..line
            });
            let alone = "GetBlock, 1 worker";
            lines.push(measurement(
                server,
                "rpc-1",
                alone,
                "throughput",
                round,
                pace,
            ));
        }
    }
    let servers = [
        ("lightship", ServerKind::Server),
        ("zainod", ServerKind::Server),
    ];
    let run = Run {
        notes: vec!["second opinion on calls: ghz 0.120.0".to_owned()],
        ..run(&servers)
    };
    let folder = write(&run, &lines);
    let study = study(&folder);
    let rates = table(&study, "rpc-1", "throughput");
    assert!(rates.ghz);
    let asked = row(rates, "GetBlock, 64 workers");
    assert_eq!(of(rates, asked, "lightship").ghz, Some(90.0));
    assert_eq!(of(rates, asked, "lightship").median, Some(100.0));
    assert_eq!(of(rates, asked, "zainod").ghz, None);
    let score = &study.runs[0].score[0];
    assert_eq!((score.best, score.behind, score.failed), (2, 0, 0));
    let (out, html) = report(&[&folder]);
    let page = fs::read_to_string(out.path().join("report.md")).unwrap();
    let told = "| ghz | answers |";
    assert!(page.contains(told), "{page}");
    assert!(page.contains("| lightship 90, zainod: 2 calls of 9 failed | agree |"));
    assert!(page.contains("ghz 0.120.0"));
    assert!(html.contains("<th>ghz</th>") && html.contains("<small>lightship 90</small>"));
    // No column where nobody asked it.
    let (out, html) = report(&[&whole()]);
    let page = fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(!page.contains("ghz") && !html.contains("<th>ghz</th>"));
}

#[test]
fn an_index_is_held_to_its_target_without_the_parts_counted_apart() {
    let size = |chain: &str, metric: &str, value: f64| Measurement {
        chain: chain.to_owned(),
        ..lower(
            measurement(
                "lightship",
                "build-1",
                "from an empty store",
                metric,
                1,
                value,
            ),
            "of their bytes",
        )
    };
    let whole = "index size to blocks served";
    let apart = "index size to blocks served, parts apart";
    let mut facts = run(&[("lightship", ServerKind::Server)]);
    facts.chains.push(ChainInfo {
        name: "longer".to_owned(),
        blocks: 200_000,
        ..ChainInfo::default()
    });
    let verdict = |lines: &[Measurement]| {
        let folder = write(&facts, lines);
        let judged = targets::judge(&study(&folder), "lightship");
        let disk = judged
            .into_iter()
            .find(|each| each.what.starts_with("index on disk"));
        disk.unwrap().verdict
    };
    assert_eq!(verdict(&[size("forged", whole, 1.2)]), Verdict::OtherTerms);
    let both = [size("forged", whole, 1.2), size("forged", apart, 1.02)];
    assert_eq!(verdict(&both), Verdict::Met);
    // The longest chain of a run decides.
    let longer = [size("forged", apart, 1.02), size("longer", apart, 1.04)];
    assert_eq!(verdict(&longer), Verdict::NotMet);
}

#[test]
fn rows_are_tied_only_where_spreads_overlap() {
    let mut lines = Vec::new();
    for (server, values) in [
        ("lightship", [10.0, 12.0, 14.0]),
        ("zainod", [9.0, 11.0, 11.5]),
    ] {
        for (round, value) in (1..).zip(values) {
            lines.push(measurement(
                server,
                "ranges-2",
                "near",
                "throughput",
                round,
                value,
            ));
            lines.push(measurement(
                server,
                "ranges-2",
                "far",
                "throughput",
                round,
                if server == "zainod" {
                    value / 9.0
                } else {
                    value
                },
            ));
        }
    }
    let folder = write(&run(&THREE), &lines);
    let study = study(&folder);
    let table = table(&study, "ranges-2", "throughput");
    assert!(of(table, row(table, "near"), "zainod").tie);
    assert!(!of(table, row(table, "far"), "zainod").tie);
    let score = &study.runs[0].score;
    assert_eq!((score[0].best, score[1].tie, score[1].behind), (2, 1, 1));
}

#[test]
fn a_row_whose_digests_differ_is_flagged_and_so_is_a_server_that_contradicts_itself() {
    let mut other = measurement("zainod", "ranges-2", "wrong", "throughput", 1, 99.0);
    other.digest = Some("bb22".to_owned());
    let mut limit = measurement("raw-sender", "ranges-2", "limit", "throughput", 1, 99.0);
    limit.digest = Some("cc33".to_owned());
    let mut later = measurement("lightship", "ranges-2", "changes", "throughput", 2, 9.0);
    later.digest = Some("dd44".to_owned());
    let folder = write(
        &run(&THREE),
        &[
            measurement("lightship", "ranges-2", "wrong", "throughput", 1, 9.0),
            other,
            measurement("lightship", "ranges-2", "limit", "throughput", 1, 9.0),
            limit,
            measurement("lightship", "ranges-2", "changes", "throughput", 1, 9.0),
            later,
        ],
    );
    let study = study(&folder);
    let table = table(&study, "ranges-2", "throughput");
    assert_eq!(row(table, "wrong").proof, Proof::Differ);
    assert_eq!(row(table, "changes").proof, Proof::Differ);
    // A limit's bytes need not be the servers'.
    assert_eq!(row(table, "limit").proof, Proof::Alone);
    let (out, html) = report(&[&folder]);
    assert_eq!(html.matches("<tr class=\"disputed\">").count(), 2);
    let text = fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(
        text.contains("**DIFFER** lightship aa11, zainod bb22"),
        "{text}"
    );
    assert!(
        fs::read_to_string(out.path().join("summary.csv"))
            .unwrap()
            .contains("DIFFER")
    );
}

#[test]
fn an_error_is_shown_as_an_error_and_never_wins() {
    let folder = write(
        &run(&THREE),
        &[
            measurement("lightship", "ranges-2", "some", "throughput", 1, 9.0),
            failure(
                "zainod",
                "ranges-2",
                "some",
                "throughput",
                "the stream ended early",
            ),
            // The other metrics of a failed case have no line of their own.
            lower(
                measurement("lightship", "ranges-2", "some", "server cpu a GB", 1, 3.0),
                "CPU s/GB",
            ),
            // A round that failed takes the win from those that did not.
            measurement("lightship", "ranges-2", "shaky", "throughput", 1, 9.0),
            measurement("zainod", "ranges-2", "shaky", "throughput", 2, 99.0),
            failure(
                "zainod",
                "ranges-2",
                "shaky",
                "throughput",
                "the stream ended early",
            ),
            failure(
                "zainod",
                "tls-1",
                "all cases",
                "throughput",
                "it has no TLS",
            ),
            measurement(
                "lightship",
                "tls-1",
                "1 block, 1 client",
                "throughput",
                1,
                5.0,
            ),
        ],
    );
    let study = study(&folder);
    for metric in ["throughput", "server cpu a GB"] {
        let table = table(&study, "ranges-2", metric);
        let cell = of(table, row(table, "some"), "zainod");
        assert_eq!(cell.median, None);
        assert_eq!(cell.errors, [("the stream ended early".to_owned(), 1)]);
    }
    let ranges = table(&study, "ranges-2", "throughput");
    let shaky = row(ranges, "shaky");
    assert!(of(ranges, shaky, "lightship").best && !of(ranges, shaky, "zainod").best);
    // One that cannot run a suite says so in each of its rows.
    let tls = table(&study, "tls-1", "throughput");
    assert_eq!(tls.rows.len(), 1);
    assert_eq!(of(tls, &tls.rows[0], "zainod").errors[0].0, "it has no TLS");
    let score = study.runs[0]
        .score
        .iter()
        .find(|score| score.server == "zainod");
    assert_eq!(score.unwrap().failed, 3);
    let (_, html) = report(&[&folder]);
    assert!(html.contains("part failed: 1 × the stream ended early"));
}

#[test]
fn cpu_seconds_over_a_given_time_are_no_contest() {
    let folder = write(
        &run(&THREE),
        &[
            lower(
                measurement("lightship", "ranges-2", "some", "server cpu", 1, 9.0),
                "CPU s",
            ),
            lower(
                measurement("zainod", "ranges-2", "some", "server cpu", 1, 1.0),
                "CPU s",
            ),
            lower(
                measurement("lightship", "build-1", "some", "server cpu", 1, 1.0),
                "CPU s",
            ),
            lower(
                measurement("zainod", "build-1", "some", "server cpu", 1, 9.0),
                "CPU s",
            ),
        ],
    );
    let study = study(&folder);
    assert!(!table(&study, "ranges-2", "server cpu").compared);
    assert!(table(&study, "build-1", "server cpu").compared);
    assert_eq!(study.runs[0].score[0].best, 1);
    assert_eq!(study.runs[0].score[1].best, 0);
}

#[test]
fn hostile_names_are_text_in_every_form() {
    let mut hostile = run(&[(HOSTILE, ServerKind::Server), ("plain", ServerKind::Server)]);
    hostile.name = HOSTILE.to_owned();
    hostile.plan = format!("```\n{HOSTILE}");
    hostile.command = vec![HOSTILE.to_owned()];
    hostile.machine.host = HOSTILE.to_owned();
    hostile.servers[0].version = HOSTILE.to_owned();
    hostile.chains[0].command = HOSTILE.to_owned();
    let mut lines: Vec<Measurement> = ["1 client", "2 clients", "4 clients"]
        .map(|clients| {
            let case = format!("{HOSTILE}, {clients}");
            let mut line = measurement(HOSTILE, HOSTILE, &case, HOSTILE, 1, 1.0);
            line.unit = HOSTILE.to_owned();
            line.digest = Some(HOSTILE.to_owned());
            line
        })
        .to_vec();
    lines.push(failure("plain", HOSTILE, HOSTILE, HOSTILE, HOSTILE));
    let folder = write(&hostile, &lines);
    let (out, html) = report(&[&folder]);
    assert!(!html.contains("<script>alert"), "a script came through");
    assert!(!html.contains("<img"), "an element came through");
    // The data of the charts is there, and none of it is markup.
    assert!(html.contains("\\u003c/script\\u003e"));
    assert_eq!(html.matches("<script").count(), 3);
    assert_eq!(html.matches("</script").count(), 3);
    assert!(html.contains("{{ 7*7 }}"), "the template ran a name");
    let text = fs::read_to_string(out.path().join("report.md")).unwrap();
    let (before_plan, _) = text.split_once("Plan:").unwrap();
    let outside_code = before_plan.split("\nCommand:").next().unwrap();
    assert!(!outside_code.contains("<script"), "{outside_code}");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let folder = whole();
    let path = RunFolder::open(folder.path()).measurements_file();
    let mut text = fs::read_to_string(&path).unwrap();
    for bad in [
        r#"{"suite":"ranges-2","chain":"forged","server":"lightship","case":"x","round":1,"metric":"m","unit":"u","value":NaN,"better":"higher"}"#,
        r#"{"suite":"ranges-2","chain":"forged","server":"lightship","case":"x","round":1,"metric":"m","unit":"u","value":1e999,"better":"higher"}"#,
        // No figure and no reason.
        r#"{"suite":"ranges-2","chain":"forged","server":"lightship","case":"x","round":1,"metric":"m","unit":"u","value":null,"better":"higher"}"#,
        r#"{"suite":"ranges-2","cha"#,
    ] {
        text.push_str(bad);
        text.push('\n');
    }
    fs::write(&path, text).unwrap();
    fs::write(folder.path().join("compat/odd.json"), "[]").unwrap();
    fs::write(
        RunFolder::open(folder.path()).samples_file("forged", "zainod"),
        "nonsense\n1,2\n",
    )
    .unwrap();
    let nothing = tempfile::tempdir().unwrap();
    let study = Study::read(&[folder.path().to_owned(), nothing.path().to_owned()]).unwrap();
    assert_eq!(study.runs.len(), 1);
    let notes = study.notes.join("\n");
    assert_eq!(
        notes.matches("of the measurements is none").count(),
        3,
        "{notes}"
    );
    assert!(
        notes.contains("odd.json") && notes.contains("not read"),
        "{notes}"
    );
    let lost = table(&study, "ranges-2", "no figure");
    assert_eq!(lost.rows[0].case, "x");
    assert!(
        of(lost, &lost.rows[0], "lightship").errors[0]
            .0
            .contains("no figure and no reason")
    );
    report(&[&folder]);
}

#[test]
fn an_empty_run_an_unknown_suite_and_a_run_that_goes_on_make_a_report() {
    let empty = write(&Run::default(), &[]);
    let (_, html) = report(&[&empty]);
    assert!(html.contains("it holds no measurement"));
    assert!(html.contains("the run has not ended"));
    let unknown = write(
        &run(&[]),
        &[measurement(
            "stranger",
            "new-suite-9",
            "",
            "oddness",
            1,
            0.0,
        )],
    );
    let (_, html) = report(&[&unknown, &empty]);
    assert!(html.contains("new-suite-9") && html.contains("stranger"));
}

#[test]
fn no_folder_with_a_run_is_an_error_that_says_what_to_do() {
    let nothing = tempfile::tempdir().unwrap();
    let said = Study::read(&[nothing.path().to_owned()]).unwrap_err();
    assert!(format!("{said:#}").contains("bench --out"), "{said:#}");
}

#[test]
fn the_page_holds_everything_and_asks_for_nothing() {
    let folder = whole();
    let (_, html) = report(&[&folder]);
    for held in [
        "bench-host",
        "lightship 1.2.3",
        "lightship-harness bench --plan p.toml",
        "the plan&#x27;s own words",
        "lightship-harness forge --blocks 20000",
        "0.023 of best",
        "0.90 of limit",
        "1 / 2",
        "Over time on forged",
        "What is wanted of lightship",
    ] {
        assert!(html.contains(held), "{held} is not in the page");
    }
    assert!(html.contains("default-src 'none'"));
    for asks in [
        "<link",
        "src=\"",
        "url(",
        "@import",
        "fetch(",
        "XMLHttpRequest",
    ] {
        assert!(!html.contains(asks), "{asks}");
    }
}

fn judged(study: &Study, what: &str) -> targets::Judged {
    let mut all = targets::judge(study, "lightship");
    let at = all.iter().position(|target| target.what.contains(what));
    all.remove(at.unwrap())
}

#[test]
fn targets_are_met_not_met_or_not_measured() {
    let folder = whole();
    let study = study(&folder);
    let drain = judged(&study, "one client that only drains");
    assert_eq!(drain.verdict, Verdict::NotMet);
    assert!(
        drain.measured.starts_with("0.90 (10,000 blocks, 1 client"),
        "{}",
        drain.measured
    );
    assert_eq!(judged(&study, "server CPU a GB").verdict, Verdict::Met);
    assert_eq!(judged(&study, "together").verdict, Verdict::Met);
    let zaino = judged(&study, "to Zaino");
    assert_eq!(zaino.verdict, Verdict::NotMet);
    assert!(zaino.measured.starts_with("42.9 x"), "{}", zaino.measured);
    assert_eq!(
        judged(&study, "to lightwalletd").verdict,
        Verdict::NotMeasured
    );
    assert_eq!(judged(&study, "first answer").verdict, Verdict::Met);
    assert_eq!(judged(&study, "every compared row").verdict, Verdict::Met);
    // One method was asked, not every one.
    let errors = judged(&study, "256 connections");
    assert_eq!(errors.verdict, Verdict::OtherTerms);
    assert!(
        errors.measured.ends_with("1 of 19 methods asked"),
        "{}",
        errors.measured
    );
    // The node was on: what the target asks for was not measured.
    assert_eq!(judged(&study, "tree state").verdict, Verdict::OtherTerms);
    assert_eq!(
        judged(&study, "Zebra's state").verdict,
        Verdict::NotMeasured
    );
    let text = targets::table(&targets::judge(&study, "nobody"));
    assert!(
        text.ends_with("0 met, 0 not met, 20 not measured or on other terms"),
        "{text}"
    );
}

/// Of two chains in a run only the one that was read last was once judged.
#[test]
fn the_worst_of_a_runs_chains_is_held_to_a_target() {
    let cpu = |chain: &str, server: &str, value: f64| Measurement {
        chain: chain.to_owned(),
        ..lower(
            measurement(
                server,
                "ranges-2",
                "1,000 blocks, 1 client",
                "server cpu a GB",
                1,
                value,
            ),
            "CPU s/GB",
        )
    };
    let rate = |chain: &str, value: f64| Measurement {
        chain: chain.to_owned(),
        ..measurement(
            "lightship",
            "ranges-2",
            "1,000 blocks, 1 client",
            "blocks a server CPU second",
            1,
            value,
        )
    };
    for chains in [["forged", "longer"], ["longer", "forged"]] {
        let folder = write(
            &run(&THREE),
            &[
                cpu(chains[0], "lightship", 2.0),
                cpu(chains[0], "raw-sender", 1.0),
                cpu(chains[1], "lightship", 1.0),
                cpu(chains[1], "raw-sender", 1.0),
                rate(chains[0], 1e6),
                rate(chains[1], 9e6),
            ],
        );
        let study = study(&folder);
        for what in ["server CPU a GB", "blocks a server CPU second"] {
            let found = judged(&study, what);
            assert_eq!(found.verdict, Verdict::NotMet, "{}", found.measured);
        }
    }
}

#[test]
fn a_build_is_held_to_its_own_bare_side() {
    let names = ["lightship", "bare-scan", "bare-fetcher"];
    let kinds = [ServerKind::Server, ServerKind::Limit, ServerKind::Limit];
    let facts = run(&names.into_iter().zip(kinds).collect::<Vec<_>>());
    let line = |server, suite, value| {
        measurement(
            server,
            suite,
            "all blocks, 2 threads",
            "throughput",
            1,
            value,
        )
    };
    let folder = write(
        &facts,
        &[
            line("lightship", "state-1", 75.0),
            line("bare-scan", "state-1", 100.0),
            line("lightship", "index-1", 80.0),
            line("bare-fetcher", "index-1", 100.0),
        ],
    );
    let study = study(&folder);
    let (state, rpc) = (
        judged(&study, "build from Zebra's state"),
        judged(&study, "build over JSON-RPC"),
    );
    assert!(state.measured.starts_with("0.75"), "{}", state.measured);
    assert_eq!(state.verdict, Verdict::Met);
    assert!(rpc.measured.starts_with("0.80"), "{}", rpc.measured);
    assert_eq!(rpc.verdict, Verdict::NotMet);
}

#[test]
fn every_target_is_written_down() {
    let page = include_str!("../../../../../bench/README.md");
    let folder = whole();
    for target in targets::judge(&study(&folder), "lightship") {
        let row = format!("| {} | {} |", target.what, target.wanted);
        assert!(page.contains(&row), "{row} is not in bench/README.md");
    }
}

/// A folder of recorded runs, if the one who tests names one: each must make a report.
#[test]
fn recorded_runs_make_reports() {
    let runs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/runs");
    let folders = fs::read_dir(runs).unwrap();
    for folder in folders.filter_map(|entry| Some(entry.ok()?.path())) {
        if folder.join("run.json").exists() {
            let out = tempfile::tempdir().unwrap();
            let arguments = Arguments {
                out: out.path().to_owned(),
                runs: vec![folder],
            };
            arguments.run().unwrap();
        }
    }
}
