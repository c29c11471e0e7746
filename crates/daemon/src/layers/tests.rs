use std::fs;

use super::*;

fn with_file(text: &str, arguments: &[&str]) -> Result<Parsed, Refused> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lightship.toml");
    fs::write(&path, text).unwrap();
    let file = format!("--config={}", path.display());
    let arguments = ["lightship", arguments[0], &file]
        .into_iter()
        .chain(arguments[1..].iter().copied());
    parse(arguments.map(OsString::from))
}

fn setting(parsed: &Parsed, key: &str) -> (Option<String>, Origin) {
    let found = parsed.settings.iter().find(|setting| setting.key == key);
    let found = found.unwrap().clone();
    let origin = match found.origin {
        Origin::File(_, line) => Origin::File(PathBuf::new(), line),
        other => other,
    };
    (found.value, origin)
}

fn problem(text: &str) -> String {
    match with_file(text, &["serve"]) {
        Err(Refused::File(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flag_counts_more_than_the_file_and_the_file_more_than_a_default() {
    let text = "node = 'http://a:1'\n\nmax-streams = 1_000\nping-very-insecure = true\ncors-origins = ['https://a', 'https://b']\n";
    let parsed = with_file(text, &["serve", "--node", "http://b:1"]).unwrap();
    let owned = |text: &str| Some(text.to_owned());
    let in_file = |line| Origin::File(PathBuf::new(), line);
    assert_eq!(
        setting(&parsed, "node"),
        (owned("http://b:1"), Origin::Flag)
    );
    assert_eq!(setting(&parsed, "max-streams"), (owned("1000"), in_file(3)));
    assert_eq!(
        setting(&parsed, "ping-very-insecure"),
        (owned("true"), in_file(4))
    );
    assert_eq!(
        setting(&parsed, "cors-origins"),
        (owned("https://a,https://b"), in_file(5))
    );
    assert_eq!(
        setting(&parsed, "grpc-listen"),
        (owned("127.0.0.1:9067"), Origin::Default)
    );
    assert_eq!(setting(&parsed, "tls-cert"), (None, Origin::Default));
    let Command::Serve(serve) = parsed.command else {
        panic!("{:?}", parsed.command);
    };
    assert_eq!(serve.node.node.as_deref(), Some("http://b:1"));
    assert!(serve.ping_very_insecure);
    assert_eq!(serve.listen.tuning.max_streams.get(), 1_000);
    // What a file switches on, a flag switches off.
    let off = ["serve", "--ping-very-insecure=false"];
    let parsed = with_file(text, &off).unwrap();
    assert_eq!(
        setting(&parsed, "ping-very-insecure"),
        (owned("false"), Origin::Flag)
    );
    // A command uses the part of the file that concerns it.
    let parsed = with_file(text, &["index"]).unwrap();
    assert_eq!(setting(&parsed, "node"), (owned("http://a:1"), in_file(1)));
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one() {
    let near = problem("node = 'http://a:1'\n# so\ndata_dir = '/x'\n");
    assert!(
        near.contains("line 3") && near.contains("\"data_dir\""),
        "{near}"
    );
    assert!(near.contains("did you mean data-dir?"), "{near}");
    assert!(problem("max-stream = 1").contains("max-streams?"));
    let far = problem("zzz = 1");
    assert!(!far.contains("did you mean"), "{far}");
    // A file does not name itself or another.
    assert!(problem("config = 'x'").contains("no setting"));
}

#[test]
fn what_the_flag_refuses_the_file_is_refused_for() {
    let wrong = problem("\ngrpc-listen = 'here'\n");
    assert!(
        wrong.contains("line 2") && wrong.contains("--grpc-listen"),
        "{wrong}"
    );
    assert!(problem("max-streams = 0").contains("--max-streams"));
    assert!(problem("stall-timeout = -1").contains("--stall-timeout"));
    assert!(problem("ping-very-insecure = 'maybe'").contains("--ping-very-insecure"));
    assert!(problem("max-streams = 1.5").contains("a fraction"));
    assert!(problem("cors-origins = [1]").contains("a list of anything but texts"));
    assert!(problem("cors-origins = []").contains("an empty list"));
    assert!(problem("trusted-proxies = ['10.0.0.0/8', 'x']").contains("--trusted-proxies"));
    assert!(problem("client-header = 'a b'").contains("--client-header"));
    assert!(problem("[limits]\nmax-streams = 1").contains("limits"));
    assert!(problem("node = 'a'\nnode = 'b'").contains("line 2"));
    assert!(problem("node").contains("line 1"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing = ["lightship", "serve", "--config", "/nowhere/x.toml"];
    match parse(missing.map(OsString::from)) {
        Err(Refused::File(error)) => assert!(error.to_string().contains("/nowhere/x.toml")),
        other => panic!("{other:?}"),
    }
    // A file of which a part would be used is not used at all.
    let long = format!("node = 'http://a:1'\n#{}\n", "x".repeat(1 << 20));
    assert!(problem(&long).contains("longer than 1048576 bytes"));
    // Commands without a file do not look for one.
    let demo = ["lightship", "demo", "--config", "/nowhere/x.toml"];
    assert!(matches!(
        parse(demo.map(OsString::from)),
        Err(Refused::Typed(_))
    ));
}

#[test]
fn what_is_shown_is_a_file_that_makes_it_so() {
    let text = "node = 'http://u:p@a:1'\ndata-dir = \"/x\\\"y\\\\z\"\nmax-streams = 7\ntrusted-proxies = ['127.0.0.1', '10.0.0.0/8']\n";
    let parsed = with_file(text, &["config"]).unwrap();
    let Command::Config(config) = &parsed.command else {
        panic!("{:?}", parsed.command);
    };
    assert_eq!(config.listen.tuning.trusted_proxies.len(), 2);
    let shown = show(&parsed.settings);
    assert!(
        shown.contains("http://***@a:1") && !shown.contains("u:p"),
        "{shown}"
    );
    let other = show(&with_file("node = 'u:p@a:1'", &["config"]).unwrap().settings);
    assert!(other.contains("\"***@a:1\"") && !other.contains("u:p"));
    let again = with_file(&shown, &["config"]).unwrap();
    let values = |parsed: &Parsed| -> Vec<_> {
        let settings = parsed.settings.iter();
        settings
            .filter(|setting| setting.key != "node")
            .map(|setting| (setting.key.clone(), setting.value.clone()))
            .collect()
    };
    assert_eq!(values(&again), values(&parsed));
}

#[test]
fn every_setting_has_a_variable_of_its_name() {
    for flag in flags(&Cli::command(), "serve") {
        let variable = format!("LIGHTSHIP_{}", key(&flag).replace('-', "_").to_uppercase());
        assert_eq!(flag.get_env().unwrap().to_str(), Some(&variable[..]));
        assert_eq!(flag.get_id().as_str(), id(&key(&flag)));
    }
}

/// One row of the reference for each setting, as the code has it.
fn reference() -> Vec<String> {
    let root = Cli::command();
    flags(&root, "serve")
        .iter()
        .map(|flag| {
            let default: Vec<_> = flag
                .get_default_values()
                .iter()
                .map(|value| value.to_string_lossy())
                .collect();
            let default = match &default.join(",")[..] {
                "" => String::new(),
                value => format!("`{value}`"),
            };
            let value = flag.get_value_names().unwrap_or_default().join(" ");
            let help = flag.get_help().unwrap().to_string();
            format!("| `{}` | {value} | {default} | {help} |", key(flag))
        })
        .collect()
}

#[test]
fn the_reference_is_what_the_code_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = fs::read_to_string(path).unwrap();
    let written: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let reference = reference();
    assert!(
        written == reference,
        "docs/configuration.md should have these rows, in this order:\n{}",
        reference.join("\n")
    );
}
