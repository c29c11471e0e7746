//! The bench, held to its own rules: right answers give figures, wrong ones give none, in every suite.

use std::{collections::BTreeSet, path::Path, process::Command, time::Duration};

use lightship_harness::{
    bench::{
        plan::{Plan, SUITES},
        record::{Measurement, RunFolder, Sample},
        run,
    },
    lightship,
    process::output_of,
};

/// All suites on a small chain, in a few seconds.
fn plan(falsify: bool) -> String {
    let program = lightship::binary().unwrap();
    format!(
        r#"
name = "test"
seed = 5
rounds = 1
[[chains]]
name = "tip"
forge = {{ profile = "tip", blocks = 180, seed = 3 }}
spare_blocks = 30
[[servers]]
name = "lightship"
program = {program:?}
arguments = ["serve", "--node", "{{node_url}}", "--data-dir", "{{data}}", "--grpc-listen", "{{grpc}}", "--http-listen", "{{http}}"]
tls_arguments = ["--tls-cert", "{{certificate}}", "--tls-key", "{{key}}"]
ready = {{ http = "http://{{http}}/readyz" }}
falsify = {falsify}
[suites]
build = {{ rounds = 1, patience = "60s" }}
restart = {{ patience = "{patience}" }}
idle = {{ time = "200ms" }}
latency = {{ requests = 20, time = "200ms" }}
ranges = {{ sizes = [10, 100], time = "100ms" }}
concurrency = {{ clients = [2], sizes = [10], time = "100ms" }}
download = {{ span = 50, patience = "30s" }}
rpc = {{ workers = [2], time = "50ms" }}
tls = {{ sizes = [10], time = "50ms" }}
tip = {{ patience = "{patience}", paces = [{{ every = "100ms", blocks = 2 }}] }}
reorg = {{ depths = [1, 2], patience = "20s" }}
mempool = {{ subscribers = [1, 12], transactions = 1, patience = "20s" }}
"#,
        patience = if falsify { "10s" } else { "60s" },
    )
}

fn measured(text: &str, folder: &Path) -> Vec<Measurement> {
    let folder = RunFolder::create(folder).unwrap();
    let harness = Path::new(env!("CARGO_BIN_EXE_lightship-harness"));
    run::run(&Plan::read(text).unwrap(), text, &folder, harness, None).unwrap();
    folder.measurements().unwrap()
}

#[test]
fn a_right_server_has_figures_in_every_suite_and_the_same_digests_again() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = plan(false);
    let once = measured(&text, first.path());
    let wrong: Vec<_> = once.iter().filter(|line| line.error.is_some()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let suites: BTreeSet<&str> = once.iter().map(|line| line.suite.as_str()).collect();
    assert_eq!(suites, BTreeSet::from(SUITES));
    assert!(
        once.iter()
            .all(|line| line.value.is_some() && line.count > 0)
    );

    let run = RunFolder::open(first.path());
    let facts = run.run().unwrap();
    assert_eq!(facts.chains[0].blocks, 180);
    assert!(!facts.finished.is_empty() && facts.servers[0].version != "unknown");
    let samples: Vec<Sample> = run.samples("tip", "lightship").unwrap();
    assert!(samples.iter().any(|sample| sample.rss_anon > 0));

    // Figures differ; what was asked and answered does not. Blocks that come while it runs carry the clock's time.
    let digests = |lines: &[Measurement]| -> BTreeSet<(String, String, Option<String>)> {
        lines
            .iter()
            .filter(|line| !line.suite.starts_with("reorg") && !line.suite.starts_with("mempool"))
            .map(|line| (line.suite.clone(), line.case.clone(), line.digest.clone()))
            .collect()
    };
    let again = measured(&text, second.path());
    assert_eq!(digests(&once), digests(&again));
}

/// A suite without a line looks as if nobody had wanted it, and a server that fails as if it had lost nothing.
#[test]
fn a_server_that_fails_has_a_reason_in_every_suite_and_round() {
    let folder = tempfile::tempdir().unwrap();
    let program = format!("{:?}", lightship::binary().unwrap());
    let text = plan(false)
        .replace(&program, "\"/bin/false\"")
        .replace("rounds = 1\n[[chains]]", "rounds = 2\n[[chains]]");
    let lines = measured(&text, folder.path());
    assert!(lines.iter().all(|line| line.value.is_none()), "{lines:#?}");
    for round in [1, 2] {
        let of_round = lines.iter().filter(|line| line.round == round);
        let suites: BTreeSet<&str> = of_round.map(|line| line.suite.as_str()).collect();
        assert_eq!(suites, BTreeSet::from(SUITES), "round {round}");
    }
}

#[test]
fn a_node_that_is_not_there_is_missed_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("plan.toml"), folder.path().join("run"));
    let real = "[[chains]]\nname = \"real\"\nregtest = true\n[[servers]]";
    let text = plan(false).replace("[[servers]]", real);
    std::fs::write(&file, text).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_lightship-harness"));
    bench
        .args(["bench", "--plan"])
        .arg(&file)
        .arg("--out")
        .arg(&out)
        .env("LIGHTSHIP_ZEBRAD", folder.path().join("none"));
    let ended = output_of(&mut bench, Duration::from_secs(60)).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success() && said.contains("LIGHTSHIP_ZEBRAD"),
        "{said}"
    );
    assert!(!out.exists(), "nothing was begun");
}

#[test]
fn wrong_answers_have_no_figures_in_any_suite() {
    let folder = tempfile::tempdir().unwrap();
    let lines = measured(&plan(true), folder.path());
    // Of these methods the byte that is changed is free text, or there is none.
    let blind = [
        "GetLightdInfo",
        "SendTransaction",
        "GetMempoolTx",
        "GetSubtreeRoots",
    ];
    for suite in SUITES {
        let of_suite: Vec<_> = lines.iter().filter(|line| line.suite == suite).collect();
        assert!(
            of_suite.iter().any(|line| line.error.is_some()),
            "{suite} noticed nothing: {of_suite:#?}"
        );
        let fooled = of_suite.iter().filter(|line| {
            line.value.is_some() && !blind.iter().any(|method| line.case.starts_with(method))
        });
        assert_eq!(fooled.count(), 0, "{suite} was fooled: {of_suite:#?}");
    }
}
