use std::time::Duration;

use super::*;

const SMALL: &str = r#"
name = "small"
seed = 1
rounds = 1
[[chains]]
name = "testnet"
forge = { profile = "testnet", blocks = 500, seed = 1 }
[[servers]]
name = "lightship"
program = "lightship"
arguments = ["serve", "--node", "{node_url}"]
[suites.ranges]
sizes = [10, 100]
time = "500ms"
"#;

fn refusal(text: &str) -> String {
    format!("{:#}", Plan::read(text).unwrap_err())
}

#[test]
fn a_plan_says_what_is_measured() {
    let plan = Plan::read(SMALL).unwrap();
    let ranges = plan.suites.ranges.as_ref().unwrap();
    assert_eq!(ranges.time, Duration::from_millis(500));
    assert_eq!(plan.servers[0].kind, Kind::Program);
    assert!(plan.chains[0].carries(&plan.servers[0]) && plan.chains[0].runs("ranges-2"));
}

#[test]
fn a_key_that_nobody_knows_is_refused_with_its_place() {
    let said = refusal(&SMALL.replace("sizes =", "size = [1]\nsizes ="));
    assert!(said.contains("size") && said.contains("line"), "{said}");
    let said = refusal(&SMALL.replace("rounds = 1", "rounds = 1\nround = 2"));
    assert!(said.contains("round"), "{said}");
}

#[test]
fn a_plan_that_does_not_hold_together_is_refused() {
    for (old, new, word) in [
        ("rounds = 1", "rounds = 0", "rounds"),
        ("{node_url}", "{node}", "placeholders"),
        ("\"500ms\"", "\"half\"", "duration"),
        ("profile = \"testnet\"", "profile = \"toy\"", "profile"),
        ("name = \"lightship\"", "name = \"a/b\"", "a/b"),
        ("name = \"lightship\"", "name = \"testnet\"", "twice"),
        ("program = \"lightship\"", "kind = \"program\"", "program"),
        ("forge = {", "regtest = true\nforge = {", "one of"),
        ("sizes = [10, 100]", "sizes = [0]", "sizes"),
        ("[[servers]]", "servers = [\"x\"]\n[[servers]]", "no 'x'"),
        ("[suites", "tls_config = \"[tls]\"\n[suites", "tls_config"),
        (
            "[suites",
            "ready = { http_line = \"ok\" }\n[suites",
            "http_line",
        ),
        (
            "[suites",
            "settled = { http = \"{x}\" }\n[suites",
            "placeholders",
        ),
        ("[suites", "parts = { trees = [] }\n[suites", "parts"),
    ] {
        let text = SMALL.replace(old, new);
        assert_ne!(text, SMALL, "{old}");
        let said = refusal(&text);
        assert!(said.contains(word), "{new}: {said}");
    }
}

#[test]
fn a_run_can_be_restricted_to_what_the_plan_has() {
    let mut plan = Plan::read(SMALL).unwrap();
    assert!(plan.restrict(&["speed".into()], &[]).is_err());
    assert!(plan.restrict(&[], &["zainod".into()]).is_err());
    plan.restrict(&["latency".into()], &["lightship".into()])
        .unwrap();
    assert!(plan.chains[0].runs("latency-1") && !plan.chains[0].runs("ranges-2"));
}

#[test]
fn braces_that_are_no_placeholder_stay() {
    let value = |word: &str| (word == "grpc").then(|| "1.2.3.4:5".to_owned());
    assert_eq!(
        fill("{ \"a\": \"{grpc}\" }", value).unwrap(),
        "{ \"a\": \"1.2.3.4:5\" }"
    );
    assert!(fill("{http}", value).is_err());
}

#[test]
fn the_plans_that_come_along_hold_together() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/plans");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(error) = Plan::read(&text) {
            panic!("{}: {error:#}", path.display());
        }
        read += 1;
    }
    assert_eq!(read, 5);
}
